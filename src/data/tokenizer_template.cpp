// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_template.h"

#include <nlohmann/json.hpp>
#include <string>

#include "data/tokenizer_json_view.h"

namespace ballast {
namespace {

TokenTemplate read_template(const JsonView& description) {
  TokenTemplate result;
  bool after_text = false;
  const JsonView single = description.member("single");
  for (const JsonView& piece : single.items()) {
    if (piece.has("Sequence")) {
      const JsonView id = piece.member("Sequence").member("id");
      if (id.text() != "A" || after_text) id.fail("a template for one text has it once", id.text(), "one Sequence A");
      after_text = true;
      continue;
    }
    const std::string name = piece.member("SpecialToken").member_text("id");
    auto& ids = after_text ? result.after : result.before;
    for (const JsonView& id : description.member("special_tokens").member(name).member("ids").items()) {
      ids.push_back(id.id());
    }
  }
  if (!after_text) single.fail("the template has no place for the text", {}, "one Sequence A");
  return result;
}

/// `["token", id]`, as RobertaProcessing and BertProcessing name theirs.
int32_t read_named_id(const JsonView& pair) {
  if (pair.size() != 2) pair.fail("not a token with its id", pair.value().dump(-1, ' ', true), "[\"token\", id]");
  return pair.item(1).id();
}

}  // namespace

void TokenTemplate::wrap(const JsonView& description) {
  const std::string& type = description.type();
  if (type == "Sequence") {
    for (const JsonView& processor : description.member("processors").items()) wrap(processor);
  } else if (type == "TemplateProcessing") {
    const TokenTemplate outer = read_template(description);
    before.insert(before.begin(), outer.before.begin(), outer.before.end());
    after.insert(after.end(), outer.after.begin(), outer.after.end());
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    before.insert(before.begin(), read_named_id(description.member("cls")));
    after.push_back(read_named_id(description.member("sep")));
  } else if (type != "ByteLevel") {
    description.fail_type("TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel or Sequence");
  }
}

}  // namespace ballast
