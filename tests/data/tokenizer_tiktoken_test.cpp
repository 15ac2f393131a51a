// SPDX-License-Identifier: Apache-2.0
// Rank files of tiktoken. Byte b has rank b; then the tokens of each test.
#include "data/tokenizer_tiktoken.h"

#include <gtest/gtest.h>

#include "data/tokenizer_charsmap_file.h"
#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

std::string line_of(const std::string& token, const std::string& rank) {
  return encode_base64(token) + " " + rank + "\n";
}

/// The 256 bytes, then `tokens`.
std::string ranks_of(const std::vector<std::string>& tokens) {
  std::string text;
  int rank = 0;
  for (; rank < 256; ++rank) text += line_of(std::string(1, static_cast<char>(rank)), std::to_string(rank));
  for (const std::string& token : tokens) text += line_of(token, std::to_string(rank++));
  return text;
}

std::unique_ptr<Tokenizer> load_ranks(const std::string& ranks, const std::string& specials = {}) {
  const TempFolder folder;
  if (!specials.empty()) folder.write("special_tokens.json", specials);
  return load_tokenizer(folder.write("tokenizer.model", ranks).string());
}

/// The error line without the folder.
std::string rank_fault(const std::string& ranks, const std::string& specials = {}, const char* name = "x.tiktoken") {
  const TempFolder folder;
  if (!specials.empty()) folder.write("special_tokens.json", specials);
  const std::string file = folder.write(name, ranks).string();
  std::string line = error_line<DataError>([&] { load_tokenizer(file); });
  const size_t place = line.find(folder.path().string());
  if (place != std::string::npos) line.erase(place, folder.path().string().size() + 1);
  return line;
}

// 256 bc, 257 ab, 258 abc, 259 cde: of all neighbours the joined bytes with the lowest rank, whatever their parts.
TEST(Tiktoken, MergesByTheRankOfTheJoinedBytes) {
  const auto tokenizer = load_ranks(ranks_of({"bc", "ab", "abc", "cde", "de"}));
  EXPECT_EQ(tokenizer->type(), "tiktoken");
  EXPECT_EQ(tokenizer->encode("abx", false), (Ids{257, 'x'}));
  EXPECT_EQ(tokenizer->encode("xabcd", false), (Ids{'x', 258, 'd'}));  // a bc, then abc = a + bc
  EXPECT_EQ(tokenizer->encode("xcde", false), (Ids{'x', 259}));        // c de, then cde
  EXPECT_EQ(tokenizer->encode("abc", false), (Ids{258}));              // a word that is a token
}

// The word "aabb" is a token that no merge reaches: its halves are none.
TEST(Tiktoken, TakesAWholeWordThatIsAToken) {
  const auto tokenizer = load_ranks(ranks_of({"aabb"}));
  EXPECT_EQ(tokenizer->encode("aabb", false), (Ids{256}));
  EXPECT_EQ(tokenizer->encode("aabbc", false), byte_ids("aabbc"));
}

TEST(Tiktoken, HasLlama3sTokensWithoutASpecialFile) {
  const auto tokenizer = load_ranks(ranks_of({"th"}));
  EXPECT_EQ(tokenizer->vocab_size(), 257 + 256);
  EXPECT_EQ(tokenizer->bos_id(), 257);
  EXPECT_EQ(tokenizer->eos_id(), 258);
  EXPECT_EQ(tokenizer->pad_id(), std::nullopt);
  // In Llama 3.1 with its 128000 ranks, <|eot_id|> is 128009, <|python_tag|> 128010, the last one 128255.
  EXPECT_EQ(tokenizer->token_to_id("<|eot_id|>"), 257 + 9);
  EXPECT_EQ(tokenizer->token_to_id("<|python_tag|>"), 257 + 10);
  EXPECT_EQ(tokenizer->token_to_id("<|reserved_special_token_2|>"), 257 + 11);
  EXPECT_EQ(tokenizer->token_to_id("<|reserved_special_token_246|>"), 257 + 255);
  EXPECT_EQ(tokenizer->encode("th<|eot_id|>", true), (Ids{257, 256, 266}));
  EXPECT_EQ(tokenizer->decode(Ids{257, 256, 266}, true), "th");
  EXPECT_EQ(tokenizer->decode(Ids{257, 256, 266}, false), "<|begin_of_text|>th<|eot_id|>");
}

TEST(Tiktoken, ReadsTheSpecialFile) {
  const auto tokenizer = load_ranks(ranks_of({"1234"}), R"x({"pat_str": "[0-9]{1,2}+|$|x",
      "special_tokens": {"<s>": 300, "</s>": 257}, "bos": "<s>", "eos": "</s>", "pad": "</s>"})x");
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->bos_id(), 300);
  EXPECT_EQ(tokenizer->eos_id(), 257);
  EXPECT_EQ(tokenizer->pad_id(), 257);
  // {1,2}+ is possessive in Rust's syntax, two digits and no more, so 1234 is never one word.
  EXPECT_EQ(tokenizer->encode("1234", true), (Ids{300, '1', '2', '3', '4'}));
}

TEST(Tiktoken, MayLeaveIdsToSpecialTokens) {
  const auto tokenizer = load_ranks(ranks_of({}) + line_of("th", "257"), R"({"special_tokens": {"<s>": 256}})");
  EXPECT_EQ(tokenizer->encode("th<s>", true), (Ids{257, 256}));
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
}

TEST(TiktokenFaults, NameTheLine) {
  EXPECT_EQ(rank_fault("YQ== 0\nY*== 1\n"),
            "data: x.tiktoken:2: the token is not base64; got Y*==, need bytes in base64, a space, a rank");
  EXPECT_EQ(rank_fault("YQ== 0\n\nYg==\n"), "data: x.tiktoken:3: not a rank; need a number from 0 to 2147483646");
  for (const char* rank : {"-1", "1x", "2147483647", "99999999999999999999", "1.5", " 1"}) {
    EXPECT_EQ(rank_fault(std::string("YQ== 0\nYg== ") + rank),
              std::string("data: x.tiktoken:2: not a rank; got ") + rank + ", need a number from 0 to 2147483646");
  }
  EXPECT_EQ(rank_fault("YQ== 0\nYQ== 1\n"), "data: x.tiktoken:2: the token appears twice; got YQ==");
  EXPECT_EQ(rank_fault("YQ== 0\nYg== 0\n"), "data: x.tiktoken: a rank appears twice; got 0");
  EXPECT_EQ(rank_fault(""), "data: x.tiktoken: has no tokens");
}

TEST(TiktokenFaults, NameWhatIsMissing) {
  EXPECT_EQ(rank_fault("YQ== 0\nYg== 1\n"),
            "data: x.tiktoken: not every byte is a token; got 2 single bytes, need 256");
  const std::string gap = ranks_of({}) + line_of("th", "2000000000");
  EXPECT_EQ(rank_fault(gap),
            "data: x.tiktoken: a rank is missing; got 256, need every rank up to the largest once; try fetching the "
            "file again, or special_tokens.json beside it");
  EXPECT_EQ(rank_fault(ranks_of({}) + line_of("th", "2147483646")),
            "data: x.tiktoken: a rank is too large; got 2147483646");
  const std::string whole = ranks_of({"th"});
  EXPECT_NE(rank_fault(whole.substr(0, 1000)), "");
  EXPECT_NE(rank_fault(whole.substr(0, 1000), {}, "tokenizer.model"), "");
}

TEST(TiktokenFaults, NameTheFaultOfTheSpecialFile) {
  const std::string ranks = ranks_of({});
  EXPECT_EQ(rank_fault(ranks, "{}"), "data: special_tokens.json: has no member special_tokens");
  EXPECT_EQ(rank_fault(ranks, R"({"special_tokens": []})"),
            "data: special_tokens.json special_tokens: wrong type; got array, need an object of text: id");
  EXPECT_EQ(rank_fault(ranks, R"({"special_tokens": {"<s>": -1}})"),
            "data: special_tokens.json special_tokens.<s>: wrong type; got -1, need a token id (integer in "
            "0..2147483646)");
  EXPECT_EQ(rank_fault(ranks, R"({"special_tokens": {"<s>": 7}})"),
            "data: x.tiktoken: a rank is the id of special token \"<s>\" as well; got 7");
  EXPECT_EQ(rank_fault(ranks, R"({"special_tokens": {"<s>": 256}, "bos": "<t>"})"),
            "data: special_tokens.json bos: is no special token; got <t>");
  EXPECT_EQ(rank_fault(ranks, R"({"special_tokens": {"<s>": 256}, "pat_str": "a("})"),
            "data: special_tokens.json pat_str: the regular expression does not compile: missing closing parenthesis; "
            "got a(, need an expression in Rust's syntax");
  EXPECT_NE(rank_fault(ranks, R"({"special_tokens": {"<s>": 256, "<t>": 256}})").find("id belongs to added token"),
            std::string::npos);
}

}  // namespace
}  // namespace ballast
