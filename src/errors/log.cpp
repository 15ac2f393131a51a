// SPDX-License-Identifier: Apache-2.0
#include "errors/log.h"

#include <cstdio>
#include <mutex>
#include <set>

namespace ballast {
namespace {

std::mutex log_mutex;

void write(const char* prefix, const std::string& line) {
  const std::lock_guard<std::mutex> lock(log_mutex);
  std::fprintf(stderr, "%s%s\n", prefix, line.c_str());
  std::fflush(stderr);
}

}  // namespace

void log_info(const std::string& line) {
  write("", line);
}
void log_warning(const std::string& line) {
  write("warning: ", line);
}
void log_error(const std::string& line) {
  write("error: ", line);
}

void warn_once(const std::string& topic, const std::string& line) {
  static std::set<std::string> spoken;
  {
    const std::lock_guard<std::mutex> lock(log_mutex);
    if (!spoken.insert(topic).second) return;
  }
  log_warning(line);
}

}  // namespace ballast
