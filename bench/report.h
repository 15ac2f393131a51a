// SPDX-License-Identifier: Apache-2.0
// What every bench program prints: one JSON object with the command, the machine, the date and the figures.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../tests/ops/peak_memory.h"

namespace ballast {

/// Best of several rounds: wall time, and CPU time of all threads, which other work on the machine disturbs less.
struct BenchTime {
  double seconds = 1e30;
  double cpu_seconds = 1e30;
};

/// Wall and CPU time of one run.
inline BenchTime lap(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  run();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC};
}

/// Keeps the smaller of both times.
inline void keep_best(BenchTime& so_far, const BenchTime& one) {
  so_far = {std::min(so_far.seconds, one.seconds), std::min(so_far.cpu_seconds, one.cpu_seconds)};
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

inline BenchTime best_time(int rounds, const std::function<void()>& run) {
  run();  // warms up
  BenchTime best;
  for (int round = 0; round < rounds; ++round) keep_best(best, lap(run));
  return best;
}

/// Peak of live tensor megabytes during `run` above what was live before.
inline double peak_megabytes(const std::function<void()>& run) {
  PeakMemory& memory = PeakMemory::installed();
  memory.reset();
  run();
  return static_cast<double>(memory.peak()) / 1e6;
}

/// Rounded to what a figure is worth: four digits.
inline double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

/// Collects the figures and prints them when it goes out of scope.
class BenchReport {
 public:
  BenchReport(int argc, char** argv) {
    std::string command;
    for (int i = 0; i < argc; ++i) command += (i > 0 ? " " : "") + (i == 0 ? base_name(argv[0]) : std::string(argv[i]));
    char date[32];
    const std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    json_ = {{"command", command}, {"date", date}, {"machine", cpu_model()}, {"threads", at::get_num_threads()}};
    double load = 0;
    if (getloadavg(&load, 1) == 1) json_["load_average"] = rounded(load);
  }
  ~BenchReport() { std::printf("%s\n", json_.dump(1).c_str()); }
  BenchReport(const BenchReport&) = delete;
  BenchReport& operator=(const BenchReport&) = delete;

  nlohmann::ordered_json& operator[](const char* key) { return json_[key]; }

 private:
  static std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  static std::string cpu_model() {
    std::ifstream stream("/proc/cpuinfo");
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
    }
    return "unknown";
  }

  nlohmann::ordered_json json_;
};

}  // namespace ballast
