// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "apps/commands.h"
#include "config/key_docs.h"
#include "errors/errors.h"

namespace ballast {

int run_keys(const Arguments& arguments) {
  const std::string argument = arguments.empty() ? "" : arguments.front();
  if (argument == "--help" || argument == "-h") {
    std::puts(
        "ballast keys [PATTERN]    keys whose name or meaning contains PATTERN\n"
        "ballast keys --markdown   all keys as docs/keys.md\n"
        "ballast keys --base_yml   all keys at their defaults, as configs/base.yml");
    return 0;
  }
  const bool is_option = argument.starts_with("-");
  if (arguments.size() > 1 || (is_option && argument != "--markdown" && argument != "--base_yml")) {
    Fault fault;
    fault.where = "config: keys";
    fault.what = "wrong arguments";
    fault.got = arguments.size() > 1 ? std::to_string(arguments.size()) + " of them" : argument;
    fault.need = "one pattern, --markdown or --base_yml";
    throw ConfigError(fault);
  }
  const std::string page = argument == "--markdown"   ? keys_markdown()
                           : argument == "--base_yml" ? base_yml()
                                                      : list_keys(argument);
  std::fputs(page.c_str(), stdout);
  return 0;
}

}  // namespace ballast
