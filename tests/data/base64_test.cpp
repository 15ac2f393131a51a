// SPDX-License-Identifier: Apache-2.0
#include "data/base64.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

// RFC 4648, section 10.
TEST(Base64, DecodesTheVectorsOfTheStandard) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9v"), "foo");
  EXPECT_EQ(decode_base64("Zm9vYg=="), "foob");
  EXPECT_EQ(decode_base64("Zm9vYmE="), "fooba");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decode_base64("+/+/"), "\xFB\xFF\xBF");
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg=a", "Z===", "Zh==", "Zm9=", "Zm-v", "Zm9v ", "====", "Zm9v\n"}) {
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ballast
