// SPDX-License-Identifier: Apache-2.0
#include "data/parallel_encode.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace ballast {
namespace {

/// Texts are handed out in runs of about this size, so that short ones do not fight for the counter.
constexpr size_t kRunBytes = size_t{64} << 10;

/// First failure by the number of its text, so that it does not depend on the threads' speed.
class FirstFailure {
 public:
  void keep(size_t index, std::exception_ptr error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_ != nullptr && index_ <= index) return;
    index_ = index;
    error_ = std::move(error);
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  size_t index_ = 0;
  std::exception_ptr error_;
};

/// Ends of the runs of texts.
std::vector<size_t> cut_runs(std::span<const std::string_view> texts) {
  std::vector<size_t> ends;
  size_t bytes = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    bytes += texts[i].size();
    if (bytes < kRunBytes && i + 1 < texts.size()) continue;
    ends.push_back(i + 1);
    bytes = 0;
  }
  return ends;
}

}  // namespace

int num_encode_threads() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                             bool add_special_tokens, int num_threads) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  const std::vector<size_t> run_ends = cut_runs(texts);
  std::atomic<size_t> next_run{0};
  FirstFailure failure;
  const auto work = [&] {
    for (size_t run = next_run++; run < run_ends.size(); run = next_run++) {
      for (size_t i = run == 0 ? 0 : run_ends[run - 1]; i < run_ends[run]; ++i) {
        try {
          ids[i] = tokenizer.encode(texts[i], add_special_tokens);
        } catch (...) {
          failure.keep(i, std::current_exception());
        }
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t num_helpers = std::min(static_cast<size_t>(std::max(1, num_threads)), run_ends.size());
  for (size_t i = 1; i < num_helpers; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  failure.rethrow();
  return ids;
}

}  // namespace ballast
