// SPDX-License-Identifier: Apache-2.0
#include "metrics/balance.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/commands.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "files/atomic_file.h"
#include "metrics/balance_page.h"

namespace ballast {
namespace {

struct BalanceArguments {
  std::vector<std::filesystem::path> runs;
  std::optional<int64_t> step;
  std::filesystem::path page;
};

[[noreturn]] void refuse_balance_argument(const std::string& what, const std::string& got) {
  throw ConfigError({.where = "balance",
                     .what = what,
                     .got = got,
                     .need = "RUN [RUN2] [--step N] [--plot FILE.html], a run by its folder or its expert_load.jsonl",
                     .attempt = {}});
}

int64_t step_number(const std::string& text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size()) refuse_balance_argument("--step is no number", text);
  return step;
}

BalanceArguments parse_balance_arguments(const Arguments& arguments) {
  BalanceArguments parsed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--step" || argument == "--plot") {
      if (i + 1 == arguments.size()) refuse_balance_argument("an option lacks its value", argument);
      const std::string& value = arguments[++i];
      if (argument == "--step") parsed.step = step_number(value);
      if (argument == "--plot") parsed.page = value;
    } else if (argument.starts_with("-") || parsed.runs.size() == 2) {
      refuse_balance_argument("an argument that means nothing here", argument);
    } else {
      parsed.runs.emplace_back(argument);
    }
  }
  if (parsed.runs.empty()) refuse_balance_argument("the folder of a run is missing", {});
  if (parsed.page.empty()) parsed.page = expert_load_path(parsed.runs.front()).replace_filename("expert_load.html");
  return parsed;
}

}  // namespace

int run_balance(const Arguments& arguments) {
  const BalanceArguments parsed = parse_balance_arguments(arguments);
  std::vector<RunLoads> runs;
  for (const std::filesystem::path& run : parsed.runs) {
    const std::filesystem::path path = expert_load_path(run);
    runs.push_back({run.string(), read_expert_load(path)});
    for (const std::string& note : runs.back().history.notes) log_warning(path.string() + ": " + note);
  }
  const BalanceView view = balance_view(runs, parsed.step);
  std::printf("Expert load, %s\n", view.title.c_str());
  for (size_t i = 0; runs.size() == 2 && i < 2; ++i) std::printf("%c: %s\n", "AB"[i], runs[i].name.c_str());
  std::printf("\n%s\n", balance_text(balance_table(view)).c_str());
  write_file(parsed.page, balance_page(runs, view), ErrorKind::kData);
  std::printf("%s\n", parsed.page.c_str());
  return 0;
}

}  // namespace ballast
