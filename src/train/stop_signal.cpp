// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signal.h"

#include <unistd.h>
#include <csignal>

namespace ballast {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void remember_signal(int number) {
  if (received_signal != 0) _exit(128 + number);
  received_signal = number;
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  std::signal(SIGINT, remember_signal);
  std::signal(SIGTERM, remember_signal);
}

StopSignal::~StopSignal() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int StopSignal::received() const {
  return received_signal;
}

}  // namespace ballast
