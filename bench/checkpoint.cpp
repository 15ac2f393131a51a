// SPDX-License-Identifier: Apache-2.0
// Claims: a save stalls training for at most 1.5 memory copies of the state; loading takes at most 1.3 times the time
// that reading the same files takes.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/checkpoint_saver.h"
#include "models/checkpoint_weights.h"
#include "report.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kTensors = 60;
constexpr int64_t kElements = (int64_t{1} << 30) / 4 / kTensors;
constexpr int kRounds = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CheckpointContent content_of(const std::vector<at::Tensor>& state, int64_t step) {
  CheckpointContent content;
  content.step = step;
  content.tensor_files = {{"model-r00000.safetensors", {}}};
  for (size_t i = 0; i < state.size(); ++i) {
    content.tensor_files[0].tensors.push_back(snapshot_of("t" + std::to_string(i), state[i]));
  }
  return content;
}

/// Time that training loses to a save: starting it, and detach() when the next update comes `step_seconds` later.
double stall_seconds(const std::vector<at::Tensor>& state, const fs::path& root, double step_seconds) {
  static int64_t step = 0;
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    CheckpointSaver saver(root, 1);
    const auto start = Clock::now();
    saver.start(content_of(state, ++step));
    const double start_seconds = seconds_since(start);
    std::this_thread::sleep_for(std::chrono::duration<double>(step_seconds));
    const auto update = Clock::now();
    saver.detach();
    best = std::min(best, start_seconds + seconds_since(update));
    saver.finish();
  }
  return best;
}

/// Every byte of the files, through read() into a buffer that is there already, by one thread.
void read_files(const fs::path& folder, std::vector<char>& buffer) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int file = ::open(entry.path().c_str(), O_RDONLY);
    size_t offset = 0;
    for (ssize_t count = 1; count > 0; offset += static_cast<size_t>(count)) {
      count = ::read(file, buffer.data() + offset, std::min<size_t>(buffer.size() - offset, size_t{8} << 20));
    }
    ::close(file);
  }
}

}  // namespace
}  // namespace ballast

/// checkpoint [folder for the files]
int main(int argc, char** argv) {
  using namespace ballast;
  const fs::path base = argc > 1 ? fs::path(argv[1]) : fs::temp_directory_path();
  const fs::path root = base / ("ballast_bench_" + std::to_string(::getpid()));
  fs::create_directories(root);
  BenchReport report(argc, argv);
  std::vector<at::Tensor> state, copy;
  for (int64_t i = 0; i < kTensors; ++i) {
    state.push_back(at::randn({kElements}));
    copy.push_back(at::empty_like(state.back()));
  }
  const double gigabytes = static_cast<double>(kTensors * kElements * 4) / 1e9;
  const BenchTime copying = best_time(kRounds, [&] {
    for (size_t i = 0; i < state.size(); ++i) copy[i].copy_(state[i]);
  });
  report["state_gigabytes"] = rounded(gigabytes);
  report["copy_seconds"] = rounded(copying.seconds);
  report["copy_gigabytes_per_second"] = rounded(gigabytes / copying.seconds);
  for (const auto& [name, seconds] :
       {std::pair{"no_step", 0.0}, {"step_of_1_second", 1.0}, {"step_of_3_seconds", 3.0}}) {
    const double stall = stall_seconds(state, root, seconds);
    report["stall"][name] = {{"seconds", rounded(stall)}, {"copies", rounded(stall / copying.seconds)}};
  }
  const auto write = Clock::now();
  CheckpointWriter(root / "100", content_of(state, 100)).write();
  report["write_seconds_with_sync"] = rounded(seconds_since(write));

  std::vector<char> buffer(static_cast<size_t>(kTensors * kElements * 4) + 1000000);
  const BenchTime reading = best_time(kRounds, [&] { read_files(root / "100", buffer); });
  const BenchTime loading = best_time(kRounds, [&] {
    const CheckpointReader reader(root / "100");
    TensorReads reads;
    for (size_t i = 0; i < copy.size(); ++i) reads.add(*reader.find("t" + std::to_string(i)), copy[i]);
    reads.run(reader);
  });
  report["read_seconds"] = rounded(reading.seconds);
  report["load_seconds"] = rounded(loading.seconds);
  report["load_over_read"] = rounded(loading.seconds / reading.seconds);
  report["load_cpu_over_read_cpu"] = rounded(loading.cpu_seconds / reading.cpu_seconds);
  report["is_equal"] = at::equal(copy.front(), state.front()) && at::equal(copy.back(), state.back());
  fs::remove_all(root);
}
