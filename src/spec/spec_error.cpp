// SPDX-License-Identifier: Apache-2.0
#include "spec/spec_error.h"

#include "config/checks.h"
#include "errors/errors.h"

namespace ballast {

void fail_spec(const Config& config, const std::string& key, const std::string& what, const std::string& got,
               const std::string& need) {
  Fault fault;
  fault.where = place_of(config.origin(key), key);
  fault.what = what;
  fault.got = got;
  fault.need = need;
  throw ConfigError(fault);
}

}  // namespace ballast
