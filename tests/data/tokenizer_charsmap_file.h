// SPDX-License-Identifier: Apache-2.0
// The character map nmt_nfkc, taken out of a SentencePiece model of tests/golden/tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {

inline std::string nmt_nfkc_map() {
  const std::string model =
      read_file(std::string(BALLAST_SOURCE_DIR) + "/tests/golden/tokenizer/unigram/unigram.model");
  constexpr std::string_view kName = "nmt_nfkc";
  size_t place = model.find(kName);
  BALLAST_CHECK(place != std::string::npos, "the normalizer's name");
  place += kName.size();
  BALLAST_CHECK(model[place++] == 0x12, "field 2, the map");
  size_t size = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(model[place++]);
    size |= static_cast<size_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  return model.substr(place, size);
}

inline std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return text;
}

}  // namespace ballast
