// SPDX-License-Identifier: Apache-2.0
#include "files/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ballast {

size_t num_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return std::max(1U, std::thread::hardware_concurrency());
  return static_cast<size_t>(CPU_COUNT(&set));
}

void run_parallel(size_t num_jobs, const std::function<void(size_t)>& job, size_t num_threads) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  size_t failed = num_jobs;
  const auto work = [&] {
    for (size_t i = next++; i < num_jobs; i = next++) {
      try {
        job(i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (i < failed) {
          failed = i;
          error = std::current_exception();
        }
        next = num_jobs;  // jobs before this one have begun
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(num_threads, num_jobs); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace ballast
