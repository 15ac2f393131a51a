// SPDX-License-Identifier: Apache-2.0
// Whole tokenizers: every reference of tests/golden/tokenizer, the corpus of the demo, roles, threads.
#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/row_file.h"
#include "data/tokenizer_charsmap_file.h"
#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

const std::string kGoldenTokenizers = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/tokenizer/";
const std::string kCorpus = std::string(BALLAST_SOURCE_DIR) + "/examples/data/kjv/";

std::vector<nlohmann::json> read_lines(const std::string& file) {
  std::ifstream stream(file);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// A tokenizer file of tests/golden/tokenizer and the names of its cases.
struct Reference {
  const char* name;
  const char* file;
  const char* cases = "cases.jsonl";
  const char* decode_cases = "decode_cases.jsonl";
};

class GoldenTokenizer : public testing::TestWithParam<Reference> {
 protected:
  std::string file(const char* name) const {
    const std::string path = GetParam().file;
    return kGoldenTokenizers + path.substr(0, path.find('/') + 1) + name;
  }
  const std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(kGoldenTokenizers + GetParam().file);
};

TEST_P(GoldenTokenizer, EncodesEveryCaseAsTheReference) {
  const auto cases = read_lines(file(GetParam().cases));
  ASSERT_GE(cases.size(), 240u);
  for (const nlohmann::json& expected : cases) {
    const std::string text = expected["text"];
    EXPECT_EQ(tokenizer_->encode(text, false), expected["ids_no_special"].get<Ids>()) << expected["text"];
    if (!expected.contains("ids")) continue;  // of the SentencePiece library, which adds nothing
    EXPECT_EQ(tokenizer_->encode(text, true), expected["ids"].get<Ids>()) << expected["text"];
  }
}

TEST_P(GoldenTokenizer, DecodesEveryCaseAsTheReference) {
  for (const nlohmann::json& expected : read_lines(file(GetParam().cases))) {
    const std::string kept =
        expected.at(expected.contains("decoded_no_special_ids") ? "decoded_no_special_ids" : "text");
    EXPECT_EQ(tokenizer_->decode(expected["ids_no_special"].get<Ids>(), false), kept) << expected["text"];
    if (!expected.contains("decoded_skip_special")) continue;
    EXPECT_EQ(tokenizer_->decode(expected["ids"].get<Ids>(), true), expected["decoded_skip_special"]);
  }
  const auto cases = read_lines(file(GetParam().decode_cases));
  ASSERT_GE(cases.size(), 60u);
  for (const nlohmann::json& expected : cases) {
    EXPECT_EQ(tokenizer_->decode(expected["ids"].get<Ids>(), false), expected["decoded"]);
    if (!expected.contains("decoded_skip_special")) continue;
    EXPECT_EQ(tokenizer_->decode(expected["ids"].get<Ids>(), true), expected["decoded_skip_special"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, GoldenTokenizer,
                         testing::Values(Reference{"bpe_llama3", "bpe_llama3/tokenizer.json"},
                                         Reference{"bpe_gpt2", "bpe_gpt2/tokenizer.json"},
                                         Reference{"bpe_qwen", "bpe_qwen/tokenizer.json"},
                                         Reference{"bpe_dolma2", "bpe_dolma2/tokenizer.json"},
                                         Reference{"bpe_deepseek", "bpe_deepseek/tokenizer.json"},
                                         Reference{"spm_bpe_llama2", "spm_bpe_llama2/tokenizer.json"},
                                         Reference{"spm_bpe_gemma", "spm_bpe_gemma/tokenizer.json"},
                                         Reference{"unigram_json", "unigram_json/tokenizer.json"},
                                         Reference{"spm_bpe_llama2_model", "spm_bpe_llama2/tokenizer.model",
                                                   "cases_model.jsonl", "decode_cases_model.jsonl"},
                                         Reference{"spm_bpe_gemma_model", "spm_bpe_gemma/tokenizer.model",
                                                   "cases_model.jsonl", "decode_cases_model.jsonl"},
                                         Reference{"unigram", "unigram/unigram.model"},
                                         Reference{"unigram_bytefallback", "unigram_bytefallback/unigram.model"},
                                         Reference{"tiktoken_llama3", "tiktoken_llama3/tokenizer.model"}),
                         [](const auto& info) { return std::string(info.param.name); });

/// Takes the tokens with one of `characters`, and the merges that name them, out of a model.
void take_out(nlohmann::json& model, const std::string& characters) {
  std::vector<std::string> marks;
  for (const char c : characters) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) marks.emplace_back();
    marks.back() += c;
  }
  nlohmann::json vocab = nlohmann::json::object();
  for (const auto& [token, id] : model["vocab"].items()) {
    bool is_out = false;
    for (const std::string& mark : marks) is_out = is_out || token.find(mark) != std::string::npos;
    if (!is_out) vocab[token] = id;
  }
  nlohmann::json merges = nlohmann::json::array();
  for (const nlohmann::json& pair : model["merges"]) {
    const std::string left = pair[0], right = pair[1];
    if (vocab.contains(left) && vocab.contains(right) && vocab.contains(left + right)) merges.push_back(pair);
  }
  model["vocab"] = vocab;
  model["merges"] = merges;
}

TEST(TokenizerVariants, EqualTheReference) {
  const nlohmann::json base = nlohmann::json::parse(read_file(kGoldenTokenizers + "bpe_gpt2/tokenizer.json"));
  const auto variants = read_lines(kGoldenTokenizers + "variants.jsonl");
  ASSERT_GE(variants.size(), 55u);
  for (const nlohmann::json& variant : variants) {
    nlohmann::json description = base;
    description.update(variant["patch"]);
    description["model"].update(variant["model"]);
    take_out(description["model"], variant["without"]);
    const auto tokenizer = load(description);
    for (const nlohmann::json& expected : variant["cases"]) {
      const std::string text = expected["text"];
      const Ids ids = expected["ids"];
      EXPECT_EQ(tokenizer->encode(text, false), ids) << expected["text"] << "\n" << variant["patch"];
      EXPECT_EQ(tokenizer->decode(ids, false), expected["decoded"]) << variant["patch"];
    }
  }
}

TEST(TokenizerVariants, OfSentencePieceEqualTheReference) {
  // The map is as long as all the rest, so the file names it only.
  const std::string map = encode_base64(nmt_nfkc_map());
  const auto put_map = [&](nlohmann::json& step) {
    if (step.is_object() && step.contains("precompiled_charsmap")) step["precompiled_charsmap"] = map;
  };
  const auto variants = read_lines(kGoldenTokenizers + "sentencepiece_variants.jsonl");
  ASSERT_GE(variants.size(), 60u);
  for (const nlohmann::json& variant : variants) {
    nlohmann::json description =
        nlohmann::json::parse(read_file(kGoldenTokenizers + variant["base"].get<std::string>() + "/tokenizer.json"));
    description.update(variant["patch"]);
    description["model"].update(variant["model"]);
    if (!variant["without"].get<std::string>().empty()) take_out(description["model"], variant["without"]);
    nlohmann::json& normalizer = description["normalizer"];
    put_map(normalizer);
    if (normalizer.is_object() && normalizer.contains("normalizers")) {
      for (nlohmann::json& step : normalizer["normalizers"]) put_map(step);
    }
    const auto tokenizer = load(description);
    for (const nlohmann::json& expected : variant["cases"]) {
      const std::string text = expected["text"];
      const Ids ids = expected["ids"];
      EXPECT_EQ(tokenizer->encode(text, false), ids) << expected["text"] << "\n"
                                                     << variant["patch"] << variant["model"];
      EXPECT_EQ(tokenizer->decode(ids, false), expected["decoded"]) << expected["ids"] << variant["patch"];
    }
  }
}

TEST(Tokenizer, GivesTheCorpusBack) {
  const auto tokenizer = load_tokenizer(kCorpus + "tokenizer.json");
  const auto rows = open_row_file(kCorpus + "validation-00000-of-00001.parquet", {.name = "text", .holds_ids = false});
  size_t num_ids = 0;
  int num_texts = 0;
  for (std::optional<Document> document; rows->next(document);) {
    ASSERT_TRUE(document);
    const Ids ids = tokenizer->encode(document->text, false);
    // The package tokenizers 0.23.3 gives these ids for the start, and 42128 for the whole split.
    const Ids start = {298, 356, 472, 291, 596, 523, 300, 794, 14, 300, 701, 539};
    if (num_texts == 0) {
      EXPECT_EQ(Ids(ids.begin(), ids.begin() + 12), start);
    }
    ASSERT_EQ(tokenizer->decode(ids, false), document->text);
    num_ids += ids.size();
    ++num_texts;
  }
  EXPECT_EQ(num_texts, 52);
  EXPECT_EQ(num_ids, 42128u);
  EXPECT_EQ(tokenizer->vocab_size(), 4096);
  EXPECT_EQ(tokenizer->bos_id(), 0);
  EXPECT_EQ(tokenizer->eos_id(), 1);
  EXPECT_EQ(tokenizer->pad_id(), 2);
  EXPECT_EQ(tokenizer->unk_id(), std::nullopt);
}

TEST(Tokenizer, CountsIdsUpToTheLargest) {
  EXPECT_EQ(load(small_tokenizer())->vocab_size(), 261);
  nlohmann::json description = small_tokenizer();
  description["added_tokens"] = nlohmann::json::array({added_token(300, "<x>")});
  const auto with_gap = load(description);
  EXPECT_EQ(with_gap->vocab_size(), 301);
  EXPECT_EQ(with_gap->token_to_id("<x>"), 300);
  EXPECT_EQ(with_gap->token_to_id("abc"), 258);
  EXPECT_EQ(with_gap->token_to_id("<y>"), std::nullopt);
  EXPECT_EQ(with_gap->decode(Ids{258, 270, 300, -1, 9000}, false), "abc<x>");
}

TEST(Tokenizer, ReadsInvalidUtf8AsReplacementCharacters) {
  const auto tokenizer = load(small_tokenizer());
  EXPECT_EQ(tokenizer->encode("x\xE4\xB8y", false), byte_ids("x\xEF\xBF\xBDy"));
  EXPECT_EQ(tokenizer->decode(Ids{0xE4, 0xB8}, false), "\xEF\xBF\xBD");
}

TEST(Tokenizer, JoinsTokensBySpacesWithoutADecoder) {
  nlohmann::json description = small_tokenizer();
  description["decoder"] = nullptr;
  EXPECT_EQ(load(description)->decode(Ids{258, 32, 97}, false), "abc \xC4\xA0 a");
  description["decoder"] = in_sequence("decoders", {byte_level(true)});
  EXPECT_EQ(load(description)->decode(Ids{258, 32, 97}, false), "abc a");
}

nlohmann::json template_of(const std::vector<std::string>& before, const std::vector<std::string>& after,
                           const nlohmann::json& ids) {
  nlohmann::json single = nlohmann::json::array(), special = nlohmann::json::object();
  for (const std::string& name : before) single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const std::string& name : after) single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
  for (const auto& [name, list] : ids.items()) special[name] = {{"id", name}, {"ids", list}, {"tokens", {name}}};
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", "not read"}, {"special_tokens", special}};
}

TEST(Tokenizer, PutsTemplatesAroundTheText) {
  nlohmann::json description = small_tokenizer();
  description["added_tokens"] = {added_token(300, "[S]"), added_token(301, "[E]"), added_token(302, "[F]")};
  const nlohmann::json inner = template_of({"[S]"}, {"[E]"}, {{"[S]", {300}}, {"[E]", {301, 301}}});
  const nlohmann::json outer = template_of({"[F]"}, {}, {{"[F]", {302}}});
  description["post_processor"] = in_sequence("processors", {byte_level(true), inner, outer});
  const auto tokenizer = load(description);
  EXPECT_EQ(tokenizer->encode("ab", true), (Ids{302, 300, 256, 301, 301}));
  EXPECT_EQ(tokenizer->encode("", true), (Ids{302, 300, 301, 301}));
  EXPECT_EQ(tokenizer->encode("[S]ab", false), (Ids{300, 256}));
  EXPECT_EQ(tokenizer->bos_id(), 302);
  EXPECT_EQ(tokenizer->eos_id(), 301);
}

TEST(Tokenizer, PutsTheTokensOfBertAndRobertaAroundTheText) {
  nlohmann::json description = small_tokenizer();
  description["added_tokens"] = {added_token(300, "<s>"), added_token(301, "</s>")};
  for (const char* type : {"BertProcessing", "RobertaProcessing"}) {
    description["post_processor"] = {{"type", type}, {"cls", {"<s>", 300}}, {"sep", {"</s>", 301}}};
    const auto tokenizer = load(description);
    EXPECT_EQ(tokenizer->encode("ab", true), (Ids{300, 256, 301}));
    EXPECT_EQ(tokenizer->encode("ab", false), (Ids{256}));
    EXPECT_EQ(tokenizer->bos_id(), 300);
    EXPECT_EQ(tokenizer->eos_id(), 301);
  }
}

TEST(Tokenizer, InAFolderIsTheJsonBeforeTheModel) {
  EXPECT_EQ(load_tokenizer(kGoldenTokenizers + "spm_bpe_llama2")->type(), "huggingface");
  EXPECT_EQ(load_tokenizer(kGoldenTokenizers + "unigram")->type(), "sentencepiece");
  EXPECT_EQ(load_tokenizer(kGoldenTokenizers + "tiktoken_llama3")->type(), "tiktoken");
}

TEST(TokenizerRoles, ComeFromTheConfigThenTheTemplateThenTheNames) {
  nlohmann::json description = small_tokenizer();
  const nlohmann::json special = {{"special", true}};
  description["added_tokens"] = {added_token(300, "<s>", special), added_token(301, "</s>", special),
                                 added_token(302, "<pad>", special), added_token(303, "[S]", special),
                                 added_token(304, "<|eos|>")};
  const TempFolder folder;
  const std::string file = folder.write("tokenizer.json", description.dump()).string();
  // <|eos|> is not special, so it is an ordinary text.
  const auto named = load_tokenizer(file);
  EXPECT_EQ(named->bos_id(), 300);
  EXPECT_EQ(named->eos_id(), 301);
  EXPECT_EQ(named->pad_id(), 302);

  description["post_processor"] = template_of({"[S]"}, {}, {{"[S]", {303}}});
  folder.write("tokenizer.json", description.dump());
  const auto templated = load_tokenizer(file);
  EXPECT_EQ(templated->bos_id(), 303);
  EXPECT_EQ(templated->eos_id(), 301);

  folder.write("tokenizer_config.json",
               R"({"bos_token": null, "eos_token": {"content": "[S]"}, "pad_token": "</s>", "unk_token": "<none>"})");
  const auto configured = load_tokenizer(folder.path().string());
  EXPECT_EQ(configured->bos_id(), std::nullopt);
  EXPECT_EQ(configured->eos_id(), 303);
  EXPECT_EQ(configured->pad_id(), 301);
  EXPECT_EQ(configured->unk_id(), std::nullopt);
}

TEST(Tokenizer, IsFoundInTheHuggingFaceCache) {
  const TempFolder cache;
  cache.write("models--org--small/refs/main", "abc123");
  cache.write("models--org--small/snapshots/abc123/tokenizer.json", small_tokenizer().dump());
  ::setenv("HF_HUB_CACHE", cache.path().c_str(), 1);
  EXPECT_EQ(load_tokenizer("org/small")->vocab_size(), 261);
  const std::string line = error_line<DataError>([] { load_tokenizer("org/absent"); });
  ::unsetenv("HF_HUB_CACHE");
  EXPECT_NE(line.find("data: org/absent: no such tokenizer"), std::string::npos) << line;
}

TEST(Tokenizer, GivesEqualIdsToManyThreadsAtOnce) {
  const auto tokenizer = load_tokenizer(kGoldenTokenizers + "bpe_qwen");
  const auto cases = read_lines(kGoldenTokenizers + "bpe_qwen/cases.jsonl");
  std::array<int, 4> num_equal{};
  std::vector<std::thread> threads;
  for (int& count : num_equal) {
    threads.emplace_back([&] {
      for (const nlohmann::json& expected : cases) {
        count += tokenizer->encode(expected["text"].get<std::string>(), true) == expected["ids"].get<Ids>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : num_equal) EXPECT_EQ(count, static_cast<int>(cases.size()));
}

}  // namespace
}  // namespace ballast
