// SPDX-License-Identifier: Apache-2.0
// Models of SentencePiece: roles, and broken files.
#include "data/tokenizer_sentencepiece.h"

#include <gtest/gtest.h>

#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

const std::string kGolden = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/tokenizer/";

/// The error line of a model with these bytes, without the folder; empty if it loads.
std::string model_fault(const std::string& bytes) {
  const TempFolder folder;
  const std::string file = folder.write("m.model", bytes).string();
  std::string line = error_line<DataError>([&] { load_tokenizer(file); });
  const size_t place = line.find(folder.path().string());
  if (place != std::string::npos) line.erase(place, folder.path().string().size() + 1);
  return line;
}

/// A field of the protocol buffers' wire format that holds bytes.
std::string field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
}

TEST(SentencePiece, TakesTheRolesOfTheModel) {
  const auto tokenizer = load_tokenizer(kGolden + "spm_bpe_llama2/tokenizer.model");
  EXPECT_EQ(tokenizer->type(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab_size(), 1500);
  EXPECT_EQ(tokenizer->unk_id(), 0);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->token_to_id("<0x00>"), 4);
  EXPECT_EQ(tokenizer->token_to_id("no such piece"), std::nullopt);
}

TEST(SentencePiece, PutsBosInFrontOfSpecialEncodings) {
  const auto tokenizer = load_tokenizer(kGolden + "spm_bpe_llama2/tokenizer.model");
  Ids expected = tokenizer->encode("the king", false);
  expected.insert(expected.begin(), 1);
  EXPECT_EQ(tokenizer->encode("the king", true), expected);
  EXPECT_EQ(tokenizer->encode("", true), (Ids{1}));
  EXPECT_EQ(tokenizer->decode(expected, true), "the king");
  expected.push_back(1500);
  expected.push_back(-1);
  EXPECT_EQ(tokenizer->decode(expected, true), "the king");
}

// Words are encoded one by one where that cannot change them; the tokenizer.json of the same model does not.
TEST(SentencePiece, EncodesWordsAsTheWholeText) {
  for (const char* folder : {"spm_bpe_llama2", "spm_bpe_gemma"}) {
    const auto model = load_tokenizer(kGolden + folder + "/tokenizer.model");
    const auto whole = load_tokenizer(kGolden + folder + "/tokenizer.json");
    for (const char* text : {"a", " a", "a ", " ", "  ", "a  b", " a   b ", "\xE2\x96\x81 a", "a\xE2\x96\x81 b",
                             "the the  the\n the \n", "x \xE2\x96\x81", "\xE4\xB8\xAD \xE6\x96\x87 ", "a \xC3\xA9"}) {
      EXPECT_EQ(model->encode(text, false), whole->encode(text, false)) << folder << " '" << text << "'";
    }
  }
}

TEST(SentencePieceFaults, CutModelsAreRefused) {
  for (const char* name : {"unigram_bytefallback/unigram.model", "spm_bpe_gemma/tokenizer.model"}) {
    const std::string whole = read_file(kGolden + name);
    ASSERT_EQ(model_fault(whole), "");
    // Between two fields a cut leaves a whole message; the library then misses the settings.
    for (size_t size = 1; size < whole.size(); size += 211) {
      const std::string line = model_fault(whole.substr(0, size));
      EXPECT_TRUE(line.starts_with("data: m.model: ")) << size << ": " << line;
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
  }
}

TEST(SentencePieceFaults, AreOneLineWithTheReason) {
  EXPECT_EQ(model_fault("\x0A\x0E"),
            "data: m.model: is not a SentencePiece model or is cut off; got a fault at byte 2 of 2; try fetching the "
            "file again");
  EXPECT_EQ(model_fault(""), "data: m.model: is not a SentencePiece model; got no pieces; try fetching the file again");
  EXPECT_EQ(model_fault("no model at all").find("data: m.model: is not a SentencePiece model or is cut off"), 0u);
  EXPECT_EQ(model_fault(std::string(100, '\xFF')).find("data: m.model: is not a SentencePiece model or is cut off"),
            0u);
  const std::string good = field(1, field(1, "a"));
  EXPECT_EQ(model_fault(good + field(1, field(1, ""))),
            "data: m.model: piece 1 has no text; try fetching the file again");
  EXPECT_EQ(model_fault(field(1, field(1, "\xFF"))),
            "data: m.model: piece 0 is not UTF-8; try fetching the file again");
  EXPECT_EQ(model_fault(field(1, field(1, "a") + std::string("\x15\x00\x00\xC0\x7F", 5))),
            "data: m.model: piece 0 has a score that is not finite; try fetching the file again");
  EXPECT_EQ(model_fault(good + field(3, field(2, "not a map"))),
            "data: m.model: the normalizer's character map is damaged; try fetching the file again");
  EXPECT_EQ(model_fault(good + field(1, field(1, std::string("\0a", 2)))),
            "data: m.model: piece 1 holds a zero byte; try fetching the file again");
  EXPECT_EQ(model_fault(good).find("data: m.model: the SentencePiece library refuses the model; got "), 0u);
}

TEST(SentencePieceFaults, FlippedBitsNeverDoHarm) {
  const std::string whole = read_file(kGolden + "unigram/unigram.model");
  for (size_t i = 0; i < 200; ++i) {
    std::string bytes = whole;
    bytes[i * 1237 % whole.size()] = static_cast<char>(bytes[i * 1237 % whole.size()] ^ (1 << i % 8));
    const TempFolder folder;
    const std::string file = folder.write("m.model", bytes).string();
    try {
      const auto tokenizer = load_tokenizer(file);
      for (const int32_t id : tokenizer->encode("Gr\xC3\xBC\xC3\x9F \xEF\xAC\x81 the 1611", false)) {
        ASSERT_LT(id, tokenizer->vocab_size());
      }
    } catch (const DataError&) {
    }
  }
}

}  // namespace
}  // namespace ballast
