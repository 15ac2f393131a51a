// SPDX-License-Identifier: Apache-2.0
// Independent pieces of work over a few threads, without torch.
#pragma once

#include <cstddef>
#include <functional>

namespace ballast {

/// Processors that this process may run on; a container's share is often smaller than the machine.
size_t num_processors();

/// Calls job(0) .. job(num_jobs - 1), each once, begun in this order, on up to `num_threads` (>= 1) threads; returns
/// when all are done. With one thread nothing is started. Of jobs that throw, the exception of the first by number is
/// thrown again, whatever the number of threads; jobs that were not begun by then are left out.
void run_parallel(size_t num_jobs, const std::function<void(size_t)>& job, size_t num_threads = num_processors());

}  // namespace ballast
