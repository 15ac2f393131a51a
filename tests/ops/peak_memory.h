// SPDX-License-Identifier: Apache-2.0
// Exact peak of live tensor bytes on the CPU, by an allocator that counts.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace ballast {

/// Live and peak bytes, and the largest single allocation, of all CPU tensors since the last reset.
class PeakMemory final : public c10::Allocator {
 public:
  /// Puts the counter in the allocator's place; tensors made before are not counted.
  static PeakMemory& installed() {
    static PeakMemory* counter = [] {
      auto* made = new PeakMemory;
      c10::SetCPUAllocator(made, /*priority=*/100);
      return made;
    }();
    return *counter;
  }

  void reset() {
    const std::lock_guard lock(mutex_);
    peak_ = base_ = live_;
    largest_ = 0;
  }
  /// Bytes above what was live at the last reset.
  int64_t peak() const { return peak_ - base_; }
  int64_t largest() const { return largest_; }
  int64_t live() const { return live_; }

  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes > 0 ? c10::alloc_cpu(bytes) : nullptr;
    if (data != nullptr) add(data, static_cast<int64_t>(bytes));
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  void add(void* data, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_[data] = bytes;
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    largest_ = std::max(largest_, bytes);
  }
  void remove(void* data) {
    const std::lock_guard lock(mutex_);
    const auto block = bytes_.find(data);
    live_ -= block->second;
    bytes_.erase(block);
  }
  static void release(void* data) {
    if (data == nullptr) return;
    installed().remove(data);
    c10::free_cpu(data);
  }

  std::mutex mutex_;
  std::unordered_map<void*, int64_t> bytes_;
  int64_t live_ = 0, peak_ = 0, base_ = 0, largest_ = 0;
};

}  // namespace ballast
