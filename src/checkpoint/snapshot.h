// SPDX-License-Identifier: Apache-2.0
// Tensor bytes that are written out while their owner goes on; copied only if he must change them first.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "files/safetensors.h"

namespace ballast {

/// A tensor as it lies in memory, or one that is made piece by piece while it is written.
struct SnapshotTensor {
  StoredTensor tensor;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< keeps the bytes alive; may be null
  /// Where set, `bytes` is empty and this fills `chunk` with what the tensor holds from `offset` on, at multiples of
  /// kChunkBytes. It does not change while the snapshot lives.
  std::function<void(size_t offset, std::span<std::byte> chunk)> make = {};
};

/// One reader takes the chunks in order; the owner of the bytes calls detach() before he changes any of them. No memory
/// is taken as long as the reader is ahead.
class Snapshot {
 public:
  static constexpr size_t kChunkBytes = size_t{4} << 20;

  explicit Snapshot(std::vector<SnapshotTensor> tensors);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  const std::vector<SnapshotTensor>& tensors() const { return tensors_; }
  size_t num_bytes() const { return num_bytes_; }

  /// Hands every chunk to `use`, tensor by tensor, front to back. Once, from one thread, which may be another one than
  /// the owner's.
  void read(const std::function<void(size_t tensor, std::span<const std::byte> chunk)>& use);

  /// Copies what read() has not handed out yet; waits for a chunk that is in use. Afterwards the bytes may change.
  void detach();

 private:
  struct Chunk {
    size_t tensor;
    std::span<const std::byte> bytes;
    size_t offset;     // in the tensor
    size_t num_bytes;  // also where the bytes are made
  };
  struct Copy;

  std::vector<SnapshotTensor> tensors_;
  std::vector<Chunk> chunks_;
  size_t num_bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable chunk_done_;
  size_t next_ = 0;  // first chunk that read() has not finished
  bool is_reading_ = false;
  bool is_detached_ = false;
  std::unique_ptr<Copy> copy_;
};

}  // namespace ballast
