// SPDX-License-Identifier: Apache-2.0
// Numbers as text, the same on every locale.
#pragma once

#include <cstdint>
#include <string>

namespace ballast {

/// `value` with `digits` digits after the point; "nan", "inf" or "-inf" where it is not finite.
std::string fixed(double value, int digits);

/// The fewest digits that read back as the same double, with ".0" for whole numbers and an exponent below 1e-4 and
/// from 1e16 on: 8192.0, 0.0001, 1.5e-07. "nan", "inf" or "-inf" where it is not finite.
std::string shortest(double value);

/// At most `digits` significant digits, as printf's %g: 3.25, 1e-06.
/// "nan", "inf" or "-inf" where it is not finite.
std::string general(double value, int digits);

/// `value` with leading zeros up to `width` digits.
std::string zero_padded(int64_t value, int width);

/// A count that is not negative, for reading at a glance: 987, 12.3k, 4.5M.
std::string short_count(double count);

}  // namespace ballast
