// SPDX-License-Identifier: Apache-2.0
// Where Oniguruma and PCRE2 read an expression differently, the matches are Oniguruma's, as the package tokenizers
// 0.23.3 shows them.
#include "data/tokenizer_regex.h"

#include <gtest/gtest.h>

#include <vector>

#include "data/tokenizer_pattern.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

using Words = std::vector<std::string>;

Words matches(const std::string& expression, const std::string& text) {
  Words found;
  TextPattern(expression).cut(text, [&](TextRange range, bool is_match) {
    if (is_match) found.push_back(text.substr(range.begin, range.end - range.begin));
  });
  return found;
}

TEST(Regex, KnowsUnicodeClasses) {
  EXPECT_EQ(matches("\\s", "a\xE1\xA0\x8E\xC2\xA0\xE3\x80\x80 b"),
            (Words{"\xC2\xA0", "\xE3\x80\x80", " "}));  // no U+180E
  EXPECT_EQ(matches("\\w+", "e\xCC\x81_1 \xC2\xBD-\xE2\x85\xA7"), (Words{"e\xCC\x81_1", "\xC2\xBD", "\xE2\x85\xA7"}));
  EXPECT_EQ(matches("[\\w]+", "\xC2\xBDx"), (Words{"x"}));  // one half is a word character outside classes only
  EXPECT_EQ(matches("\\p{Han}", "\xE3\x80\x81\xE4\xB8\xAD"), (Words{"\xE4\xB8\xAD"}));  // the comma is shared
  EXPECT_EQ(matches("\\h+", "xyfoo be"), (Words{"f", "be"}));
  EXPECT_EQ(matches("\\v", "\n\x0B\r"), (Words{"\x0B"}));
  EXPECT_EQ(matches("\\p{^L}+|\\P{Alpha}", "a1b"), (Words{"1"}));
  EXPECT_EQ(matches("[[:punct:]]+", "a$_b"), (Words{"$_"}));
  EXPECT_EQ(matches("\\p{Punct}+", "a$_b"), (Words{"_"}));
}

TEST(Regex, NestsAndIntersectsClasses) {
  EXPECT_EQ(matches("[^(\\s|[.,!?])]+", "a.b c)d"), (Words{"a", "b", "c", "d"}));
  EXPECT_EQ(matches("[\\p{L}&&[^\\p{Han}]]+",
                    "ab\xE4\xB8\xAD"
                    "c1"),
            (Words{"ab", "c"}));
  EXPECT_EQ(matches("[^a-z&&[^x]]+", "abxAX"), (Words{"xAX"}));
  EXPECT_EQ(matches("[]a]+", "b]a["), (Words{"]a"}));
  EXPECT_EQ(matches("[\\]\\-^]+", "a]-^b"), (Words{"]-^"}));
}

TEST(Regex, ReadsIntervalsAsOniguruma) {
  EXPECT_EQ(matches("\\p{N}{1,3}+", "1234567"), (Words{"1234567"}));
  EXPECT_EQ(matches("a{2}+", "aaaaa"), (Words{"aaaa"}));
  EXPECT_EQ(matches("xa{2}?", "xaaxa"), (Words{"xaa", "x"}));
  EXPECT_EQ(matches("a{,2}b", "aaab b"), (Words{"aab", "b"}));
  EXPECT_EQ(matches("a{x|{", "a{x{"), (Words{"a{x", "{"}));
}

TEST(Regex, ReadsOptionsAndAnchorsAsOniguruma) {
  EXPECT_EQ(matches("a(?i)b|c", "ab aB C ac"), (Words{"ab", "aB", "ac"}));
  EXPECT_EQ(matches("(?i:'s)|t", "'S'\xC5\xBFT"), (Words{"'S", "'\xC5\xBF"}));
  EXPECT_EQ(matches("(?m:a.)", "a\nab"), (Words{"a\n", "ab"}));
  EXPECT_EQ(matches("a.", "a\nab"), (Words{"ab"}));
  EXPECT_EQ(matches("^a", "ab\nab"), (Words{"a", "a"}));
  EXPECT_EQ(matches("\\bfoo\\b", "foo_ foo\xC2\xBD foo"), (Words{"foo"}));
  EXPECT_EQ(matches("\\u4E00|\\x41|\\x{4E01}",
                    "\xE4\xB8\x80"
                    "A\xE4\xB8\x81"),
            (Words{"\xE4\xB8\x80", "A", "\xE4\xB8\x81"}));
  EXPECT_EQ(matches("a(?# comment )b|(?<twice>c)\\k<twice>", "abccc"), (Words{"ab", "cc"}));
}

TEST(Regex, LooksBehindTheStartOfASearch) {
  const Regex regex("(?<=a)b", "test");
  const std::optional<TextRange> found = regex.find("ab", 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->begin, 1u);
}

TEST(Regex, MatchesLongRuns) {
  const std::string run(1 << 20, 'x');
  EXPECT_EQ(matches("(?:x|y)+", run), (Words{run}));
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", std::string(1 << 20, ' ') + "x").size(), 2u);
}

TEST(Regex, NamesWhatItCannotRead) {
  const auto line = [](const std::string& expression) {
    return error_line<DataError>([&] { Regex(expression, "data: t.json a.b"); });
  };
  EXPECT_NE(line("(a").find("data: t.json a.b: the regular expression does not compile: missing"), std::string::npos);
  EXPECT_NE(line("(a").find("got (a"), std::string::npos);
  EXPECT_NE(line("a)").find("unmatched )"), std::string::npos);
  EXPECT_NE(line("[a").find("unexpected end"), std::string::npos);
  EXPECT_NE(line("\\X").find("escape \\X is not supported"), std::string::npos);
  EXPECT_NE(line("(?x)a").find("group (?x is not supported"), std::string::npos);
  EXPECT_NE(line("(?~a)").find("group (?~ is not supported"), std::string::npos);
  EXPECT_NE(line("(*FAIL)").find("callouts"), std::string::npos);
  EXPECT_NE(line("\\p{Klingon}").find("does not compile"), std::string::npos);
  EXPECT_NE(line("[[:nonsense:]]").find("class [:nonsense:]"), std::string::npos);
  EXPECT_NE(line("\\u12").find("four hexadecimal digits"), std::string::npos);
  EXPECT_NE(line("\\xE4").find("up to 7F"), std::string::npos);
}

// In Rust's syntax an interval with a plus is possessive, and anchors are the ends of the text.
TEST(Regex, FollowsRustWhereAsked) {
  const auto ends = [](const std::string& expression, RegexSyntax syntax, const std::string& text) {
    const std::optional<TextRange> match = Regex(expression, "test", syntax).find(text, 0);
    return match ? static_cast<int>(match->end) : -1;
  };
  EXPECT_EQ(ends("\\d{1,3}+", RegexSyntax::kOniguruma, "12345"), 5);
  EXPECT_EQ(ends("\\d{1,3}+", RegexSyntax::kRust, "12345"), 3);
  EXPECT_EQ(ends("\\d{1,3}+3", RegexSyntax::kRust, "123"), -1);
  EXPECT_EQ(ends("a$", RegexSyntax::kOniguruma, "a\nb"), 1);
  EXPECT_EQ(ends("a$", RegexSyntax::kRust, "a\nb"), -1);
  EXPECT_EQ(ends("a$", RegexSyntax::kRust, "a\n"), -1);
  EXPECT_EQ(ends("^b", RegexSyntax::kOniguruma, "a\nb"), 3);
  EXPECT_EQ(ends("^b", RegexSyntax::kRust, "a\nb"), -1);
  EXPECT_NE(error_line<DataError>([] { Regex("(?m)a", "test", RegexSyntax::kRust); }).find("(?m is not supported"),
            std::string::npos);
}

}  // namespace
}  // namespace ballast
