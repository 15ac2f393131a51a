// SPDX-License-Identifier: Apache-2.0
#include "metrics/report.h"

#include <sys/stat.h>

#include <cstdio>
#include <ctime>
#include <filesystem>

#include "apps/commands.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "files/atomic_file.h"
#include "files/file_error.h"
#include "metrics/run_history.h"

namespace ballast {
namespace {

struct ReportArguments {
  std::filesystem::path run, out;
};

[[noreturn]] void refuse_argument(const std::string& what, const std::string& got) {
  throw ConfigError({.where = "report", .what = what, .got = got, .need = "RUN [--out FILE]", .attempt = {}});
}

ReportArguments parse_report_arguments(const Arguments& arguments) {
  ReportArguments parsed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--out") {
      if (i + 1 == arguments.size()) refuse_argument("an option lacks its value", arguments[i]);
      parsed.out = arguments[++i];
    } else if (arguments[i].starts_with("-") || !parsed.run.empty()) {
      refuse_argument("an argument that means nothing here", arguments[i]);
    } else {
      parsed.run = arguments[i];
    }
  }
  if (parsed.run.empty()) refuse_argument("the folder of a run is missing", {});
  if (parsed.out.empty()) parsed.out = parsed.run / "report.html";
  return parsed;
}

/// When the file was written last, in UTC; empty where the system does not say.
std::string written_at(const std::filesystem::path& path) {
  struct stat status{};
  std::tm utc{};
  if (stat(path.c_str(), &status) != 0 || gmtime_r(&status.st_mtime, &utc) == nullptr) return {};
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc)};
}

}  // namespace

int run_report(const Arguments& arguments) {
  const ReportArguments parsed = parse_report_arguments(arguments);
  if (!std::filesystem::is_directory(parsed.run)) {
    throw_file_error(ErrorKind::kData, parsed.run,
                     {.what = "no such folder",
                      .need = "the folder of a run",
                      .attempt = "<base_output_directory>/<run_name>, as the run was started"});
  }
  const std::filesystem::path metrics = parsed.run / "metrics.jsonl";
  const RunHistory history = read_run_history(metrics);
  for (const std::string& note : history.notes) log_warning(metrics.string() + ": " + note);
  write_file(parsed.out, report_page(history, written_at(metrics)), ErrorKind::kData);
  std::printf("%s\n", parsed.out.c_str());
  return 0;
}

}  // namespace ballast
