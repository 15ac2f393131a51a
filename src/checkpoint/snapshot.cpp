// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/snapshot.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "files/parallel.h"

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
    const std::span<const std::byte> bytes = tensors_[i].bytes;
    const size_t size = tensors_[i].make ? static_cast<size_t>(tensors_[i].tensor.num_bytes()) : bytes.size();
    num_bytes_ += size;
    for (size_t offset = 0; offset < size; offset += kChunkBytes) {
      const size_t num_bytes = std::min(size - offset, kChunkBytes);
      chunks_.push_back(
          {i, tensors_[i].make ? std::span<const std::byte>() : bytes.subspan(offset, num_bytes), offset, num_bytes});
    }
  }
}

Snapshot::~Snapshot() = default;

void Snapshot::read(const std::function<void(size_t, std::span<const std::byte>)>& use) {
  std::vector<std::byte> made;
  while (next_ < chunks_.size()) {
    Chunk chunk{};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      chunk = chunks_[next_];
      is_reading_ = true;
    }
    if (const auto& make = tensors_[chunk.tensor].make) {
      made.resize(chunk.num_bytes);
      make(chunk.offset, made);
      chunk.bytes = made;
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
    if (chunks_[i].bytes.empty()) continue;  // made when it is read
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
