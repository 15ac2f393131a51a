// SPDX-License-Identifier: Apache-2.0
#include "fuzz/tokenizer_use.h"

#include <string_view>
#include <vector>

#include "data/tokenizer_utf8.h"
#include "errors/errors.h"

namespace ballast::fuzz {
namespace {

constexpr std::string_view kText = "In 1611 the  Word;\n\tGr\xc3\xbc\xc3\x9f \xe4\xb8\x96 \xff <s>\xf0\x9f\x8c\x8d</s>";

}  // namespace

void use_tokenizer(const Tokenizer& tokenizer) {
  for (const bool adds_special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(kText, adds_special);
    for (const int32_t id : ids) BALLAST_CHECK(id >= 0 && id < tokenizer.vocab_size(), "an id of the vocabulary");
    const std::string text = tokenizer.decode(ids, adds_special);
    std::string repaired;
    BALLAST_CHECK(valid_utf8(text, repaired) == text, "decoded text is UTF-8");
  }
  for (const auto& id : {tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.pad_id(), tokenizer.unk_id()}) {
    BALLAST_CHECK(!id || (*id >= 0 && *id < tokenizer.vocab_size()), "a role has an id of the vocabulary");
  }
}

}  // namespace ballast::fuzz
