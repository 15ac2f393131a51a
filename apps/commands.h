// SPDX-License-Identifier: Apache-2.0
// The subcommands of the program. Each takes what follows its name and returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace ballast {

using Arguments = std::vector<std::string>;

int run_train(const Arguments& arguments);
int run_eval(const Arguments& arguments);
int run_probe(const Arguments& arguments);
int run_inspect(const Arguments& arguments);
int run_convert(const Arguments& arguments);
int run_tokenize(const Arguments& arguments);
int run_report(const Arguments& arguments);
int run_balance(const Arguments& arguments);
int run_keys(const Arguments& arguments);

}  // namespace ballast
