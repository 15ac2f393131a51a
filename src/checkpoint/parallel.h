// SPDX-License-Identifier: Apache-2.0
// Independent pieces of work over a few threads, without torch.
#pragma once

#include <cstddef>
#include <functional>

namespace ballast {

/// Calls job(0) .. job(num_jobs - 1), each once, on up to as many threads as the process may use; returns when all are
/// done. The first exception of a job is thrown again; jobs that were not begun are left out then.
void run_parallel(size_t num_jobs, const std::function<void(size_t)>& job);

}  // namespace ballast
