// SPDX-License-Identifier: Apache-2.0
#include "metrics/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "metrics/number.h"

namespace ballast {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool can_erase_lines(int descriptor) {
  const std::string_view terminal = environment("TERM");
  return isatty(descriptor) && environment("CI").empty() && !terminal.empty() && terminal != "dumb";
}

int columns(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void put(int descriptor, std::string_view text) {
  // A terminal that has gone away must not end a run.
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

/// 1:02:03
std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  return std::to_string(whole / 3600) + ":" + zero_padded(whole / 60 % 60, 2) + ":" + zero_padded(whole % 60, 2);
}

}  // namespace

std::string progress_text(const ProgressNumbers& numbers, int width) {
  constexpr int kBarWidth = 20;
  const double part = std::clamp(
      static_cast<double>(numbers.done) / static_cast<double>(std::max<int64_t>(numbers.total, 1)), 0.0, 1.0);
  const int filled = static_cast<int>(part * kBarWidth);
  const std::string percent = std::to_string(static_cast<int>(part * 100));
  std::string text = std::string(3 - percent.size(), ' ') + percent + "% [" + std::string(filled, '#') +
                     std::string(kBarWidth - filled, '-') + "] step " + std::to_string(numbers.done) + "/" +
                     std::to_string(numbers.total);
  if (numbers.seconds_left >= 0) text += "  ETA " + clock_text(numbers.seconds_left);
  if (numbers.tokens_per_second >= 0) text += "  " + short_count(numbers.tokens_per_second) + " tokens/s";
  return text.substr(0, static_cast<size_t>(std::max(width, 0)));
}

ProgressLine::ProgressLine(int64_t total, int descriptor)
    : total_(total), descriptor_(descriptor), is_shown_(can_erase_lines(descriptor)) {}

void ProgressLine::update(int64_t done, double step_seconds, double tokens_per_second) {
  if (!is_shown_) return;
  constexpr double kNewWeight = 0.1;
  mean_step_seconds_ =
      mean_step_seconds_ < 0 ? step_seconds : (1 - kNewWeight) * mean_step_seconds_ + kNewWeight * step_seconds;
  const double seconds_left = static_cast<double>(std::max<int64_t>(total_ - done, 0)) * mean_step_seconds_;
  // One column stays free: terminals wrap when the last one is filled. The cursor waits in the first column, so that
  // a line printed without before_line() writes over this one.
  const std::string text = progress_text({done, total_, seconds_left, tokens_per_second}, columns(descriptor_) - 1);
  put(descriptor_, std::string(kEraseLine) + text + "\r");
  is_visible_ = true;
}

void ProgressLine::before_line() {
  if (!is_visible_) return;
  put(descriptor_, kEraseLine);
  is_visible_ = false;
}

}  // namespace ballast
