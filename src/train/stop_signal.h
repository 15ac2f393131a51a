// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM as a request that the loop looks at between steps.
#pragma once

namespace ballast {

/// While it lives, the first SIGINT or SIGTERM is remembered and the second one ends the process at once.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// 0, or the signal that came.
  int received() const;
};

}  // namespace ballast
