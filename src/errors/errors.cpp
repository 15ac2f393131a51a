// SPDX-License-Identifier: Apache-2.0
#include "errors/errors.h"

#include <algorithm>

namespace ballast {

std::string to_line(const Fault& fault) {
  std::string line = fault.where.empty() ? fault.what : fault.where + ": " + fault.what;
  if (!fault.got.empty() || !fault.need.empty()) {
    line += ";";
    if (!fault.got.empty()) line += " got " + fault.got;
    if (!fault.got.empty() && !fault.need.empty()) line += ",";
    if (!fault.need.empty()) line += " need " + fault.need;
  }
  if (!fault.attempt.empty()) line += "; try " + fault.attempt;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

Error::Error(ErrorKind kind, const Fault& fault) : std::runtime_error(to_line(fault)), kind_(kind) {}

void fail_check(const char* expression, const char* file, int line, const std::string& note) {
  throw InternalError({.where = std::string(file) + ":" + std::to_string(line),
                       .what = "check failed: " + std::string(expression) + (note.empty() ? "" : " (" + note + ")"),
                       .got = {},
                       .need = {},
                       .attempt = {}});
}

}  // namespace ballast
