// SPDX-License-Identifier: Apache-2.0
#include "files/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace ballast {
namespace {

std::string nested(size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(JsonText, TakesTheMostLevelsAndNoMore) {
  EXPECT_EQ(parse_json(nested(kMostJsonLevels)).dump(), nested(kMostJsonLevels));
  for (const size_t levels : {size_t{kMostJsonLevels} + 1, size_t{1'000'000}}) {
    try {
      parse_json(nested(levels));
      ADD_FAILURE() << levels;
    } catch (const nlohmann::json::parse_error& error) {
      EXPECT_EQ(error.byte, kMostJsonLevels + 1u);
      EXPECT_NE(std::string(error.what()).find("nested deeper than 500 levels"), std::string::npos);
    }
  }
}

TEST(JsonText, CountsOpenBracketsOutsideStringsOnly) {
  const std::string brackets(600, '[');
  EXPECT_EQ(parse_json("[\"" + brackets + "\\\"" + brackets + "\\\\\"]")[0], brackets + "\"" + brackets + "\\");
  std::string many = "[0";
  for (int i = 0; i < 600; ++i) many += ",{\"a\":[]}";
  EXPECT_EQ(parse_json(many + "]").size(), 601u);
}

TEST(JsonText, HasOneErrorForEveryFault) {
  for (const char* text : {"", "{", "[1,]", "1e999", "[-1e400]", "\"\xff\"", "{}x", "nul"}) {
    EXPECT_THROW(parse_json(text), nlohmann::json::parse_error) << text;
  }
}

}  // namespace
}  // namespace ballast
