// SPDX-License-Identifier: Apache-2.0
#include "config/value.h"

#include <gtest/gtest.h>

#include <limits>

namespace ballast {
namespace {

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

std::optional<TypedValue> read(const std::string& text, ValueKind kind) {
  return to_typed(parse_scalar(text), kind);
}

TEST(ValueGrammar, ReadsIntegers) {
  const std::vector<std::pair<std::string, int64_t>> table = {
      {"8", 8},
      {"10_000", 10000},
      {"150_001", 150001},
      {"+7", 7},
      {"-1", -1},
      {"8.0", 8},
      {"1e3", 1000},
      {"\"8\"", 8},
      {" 5 ", 5},
      {"1_000_000", 1000000},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<int64_t>::min()}};
  for (const auto& [text, number] : table) EXPECT_EQ(read(text, ValueKind::kInt), TypedValue(number)) << text;
}

TEST(ValueGrammar, RefusesWhatIsNoInteger) {
  for (const char* text :
       {"8.5", "1e-1", "eight", "", "8x", "_8", "0x10", "9223372036854775808", "1e30", "nan", "--1", "1 2"}) {
    EXPECT_EQ(read(text, ValueKind::kInt), std::nullopt) << text;
  }
}

TEST(ValueGrammar, ReadsNumbers) {
  const std::vector<std::pair<std::string, double>> table = {
      {"3.e-5", 3e-5}, {"1.e-8", 1e-8}, {"1.e-05", 1e-5}, {"0.", 0.0},   {".5", 0.5},  {"1e3", 1000.0},
      {"-1", -1.0},    {"10_000", 1e4}, {"1e-3", 1e-3},   {"+.5E+1", 5}, {"0.1", 0.1}, {"160_000.5", 160000.5}};
  for (const auto& [text, number] : table) EXPECT_EQ(read(text, ValueKind::kDouble), TypedValue(number)) << text;
}

TEST(ValueGrammar, RefusesNumbersThatAreNotFinite) {
  for (const char* text : {"nan", "inf", "-inf", ".inf", ".nan", "1e999", ".", "e5", "1e", "1.2.3", "0.1.", ""}) {
    EXPECT_EQ(read(text, ValueKind::kDouble), std::nullopt) << text;
  }
}

TEST(ValueGrammar, ReadsBooleansInManySpellings) {
  for (const char* text : {"True", "true", "TRUE", "yes", "on", "1", "'true'"}) {
    EXPECT_EQ(read(text, ValueKind::kBool), TypedValue(true)) << text;
  }
  for (const char* text : {"False", "false", "no", "Off", "0"}) {
    EXPECT_EQ(read(text, ValueKind::kBool), TypedValue(false)) << text;
  }
  for (const char* text : {"2", "maybe", "", "None", "1.0"}) EXPECT_EQ(read(text, ValueKind::kBool), std::nullopt);
}

TEST(ValueGrammar, KeepsTheRawTextOfStrings) {
  EXPECT_EQ(read("2026", ValueKind::kString), TypedValue(std::string("2026")));
  EXPECT_EQ(read("1.e-8", ValueKind::kString), TypedValue(std::string("1.e-8")));
  EXPECT_EQ(read("a=b,c", ValueKind::kString), TypedValue(std::string("a=b,c")));
  EXPECT_EQ(read("'two words'", ValueKind::kString), TypedValue(std::string("two words")));
  EXPECT_EQ(read("True", ValueKind::kString), TypedValue(std::string("True")));
}

TEST(ValueGrammar, TakesNoneAsAbsentUnlessQuoted) {
  for (const char* text : {"None", "none", "NULL", "null", "~", ""}) {
    EXPECT_TRUE(is_absent(parse_scalar(text))) << text;
    EXPECT_EQ(read(text, ValueKind::kString), TypedValue(std::string())) << text;
  }
  EXPECT_FALSE(is_absent(parse_scalar("'None'")));
  EXPECT_EQ(read("'None'", ValueKind::kString), TypedValue(std::string("None")));
}

TEST(ValueGrammar, ReadsListsInEveryForm) {
  const TypedValue two(Strings{"a", "b"});
  for (const char* text :
       {"[a,b]", "['a','b']", "\"['a','b']\"", "(a,b)", "[ \"a\", 'b' ]", "('a', 'b',)", "[a, b,]"}) {
    EXPECT_EQ(read(text, ValueKind::kStrings), two) << text;
  }
  EXPECT_EQ(read("text", ValueKind::kStrings), TypedValue(Strings{"text"}));
  EXPECT_EQ(read("[]", ValueKind::kStrings), TypedValue(Strings{}));
  EXPECT_EQ(read("", ValueKind::kStrings), TypedValue(Strings{}));
  EXPECT_EQ(read("None", ValueKind::kStrings), TypedValue(Strings{}));
  EXPECT_EQ(read("[1, 2_0, 3.0]", ValueKind::kInts), TypedValue(Ints{1, 20, 3}));
  EXPECT_EQ(read("4", ValueKind::kInts), TypedValue(Ints{4}));
  EXPECT_EQ(read("(a|b).*norm", ValueKind::kStrings), TypedValue(Strings{"(a|b).*norm"}));
  EXPECT_EQ(read("[c4/en:3.1.0]", ValueKind::kStrings), TypedValue(Strings{"c4/en:3.1.0"}));
}

TEST(ValueGrammar, RefusesBrokenLists) {
  for (const char* text : {"[a", "[a,[b]]", "['a]", "[a]b", "[{a: 1}]", "[,]"}) {
    EXPECT_EQ(read(text, ValueKind::kStrings), std::nullopt) << text;
  }
  EXPECT_EQ(read("[1, x]", ValueKind::kInts), std::nullopt);
}

TEST(ValueGrammar, BoundsTheNesting) {
  EXPECT_FALSE(parse_flow(std::string(100000, '[')).has_value());
  EXPECT_TRUE(parse_flow(std::string(60, '[') + std::string(60, ']')).has_value());
}

TEST(ValueGrammar, ComparesUntypedValuesByMeaning) {
  EXPECT_EQ(read("[1, 2.0]", ValueKind::kAny), read("[1.0,2]", ValueKind::kAny));
  EXPECT_EQ(read("{a: 1, b: [x]}", ValueKind::kAny), read("{ 'a': 1.0, b: [ x ] }", ValueKind::kAny));
  EXPECT_NE(read("{a: 1}", ValueKind::kAny), read("{a: 2}", ValueKind::kAny));
  EXPECT_EQ(read("null", ValueKind::kAny), read("None", ValueKind::kAny));
}

TEST(ValueText, GivesTheValueBack) {
  for (const double number : {0.1, 3e-5, 1e-8, 1.0 / 3.0, 163840.0, -1.0}) {
    EXPECT_EQ(read(to_text(TypedValue(number)), ValueKind::kDouble), TypedValue(number));
  }
  const TypedValue words(Strings{"plain", "two words", "[0-9]+", "it's", "None", "a,b", ""});
  EXPECT_EQ(read(to_text(words), ValueKind::kStrings), words);
  EXPECT_EQ(to_text(TypedValue(Ints{1, 2})), "[1, 2]");
  EXPECT_EQ(to_text(TypedValue(true)), "true");
  EXPECT_EQ(to_text(TypedValue()), "None");
}

}  // namespace
}  // namespace ballast
