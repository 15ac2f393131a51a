// SPDX-License-Identifier: Apache-2.0
#include "metrics/number.h"

#include <array>
#include <charconv>
#include <cmath>

namespace ballast {
namespace {

std::string non_finite(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

}  // namespace

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return non_finite(value);
  std::array<char, 400> text;  // the largest double has 309 digits before the point
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits).ptr;
  return std::string(text.data(), end);
}

std::string shortest(double value) {
  if (!std::isfinite(value)) return non_finite(value);
  const double size = std::abs(value);
  const bool is_scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = is_scientific ? std::chars_format::scientific : std::chars_format::fixed;
  std::array<char, 64> text;
  std::string result(text.data(), std::to_chars(text.data(), text.data() + text.size(), value, format).ptr);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

std::string general(double value, int digits) {
  if (!std::isfinite(value)) return non_finite(value);
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits).ptr;
  return std::string(text.data(), end);
}

std::string zero_padded(int64_t value, int width) {
  const std::string digits = std::to_string(value);
  const int missing = width - static_cast<int>(digits.size());
  return missing > 0 ? std::string(static_cast<size_t>(missing), '0') + digits : digits;
}

std::string short_count(double count) {
  if (count < 1e3) return fixed(count, 0);
  if (count < 1e6) return fixed(count / 1e3, 1) + "k";
  return fixed(count / 1e6, 1) + "M";
}

}  // namespace ballast
