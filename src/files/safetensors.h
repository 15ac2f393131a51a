// SPDX-License-Identifier: Apache-2.0
// Reading and writing safetensors files, and finding the weights of a Hugging Face folder. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "errors/errors.h"

namespace ballast {

class AtomicFile;
class MappedFile;

/// Element types a safetensors file may hold.
enum class StoredType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

/// The name in the file's header: "F32", "BF16", "F8_E4M3" ...
std::string_view stored_type_name(StoredType type);
/// The type of such a name.
std::optional<StoredType> find_stored_type(std::string_view name);
/// Width of one element in bytes.
int64_t stored_type_bytes(StoredType type);

/// Name, type and shape of a stored tensor. Data are row-major and little-endian.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;

  /// Product of the shape; 1 for a scalar (empty shape), 0 when a dimension is 0.
  int64_t num_elements() const;
  int64_t num_bytes() const { return num_elements() * stored_type_bytes(type); }
  /// "F32 [2, 3]", for messages and listings.
  std::string description() const;
};

/// A safetensors file, mapped read-only. Copies share the mapping; spans live as long as any copy.
///
/// The constructor checks everything: header length and JSON, every type, shape and span, no duplicate name, no
/// overlap, no gap, no byte missing or left over, every tensor aligned to its element width.
class SafetensorsFile {
 public:
  /// @throws ErrorOf<kind> naming the file and, where there is one, the tensor. Weights and checkpoints use
  ///         kCheckpoint, data files kData.
  explicit SafetensorsFile(const std::filesystem::path& path, ErrorKind kind = ErrorKind::kCheckpoint);

  const std::filesystem::path& path() const { return path_; }
  /// All tensors in the order of their data in the file.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// The `__metadata__` entries; empty when there are none.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  uint64_t num_bytes() const;
  /// What stands before the data: length and table.
  std::span<const std::byte> header() const;

  /// Null when the file has no tensor of this name.
  const StoredTensor* find(std::string_view name) const;
  /// @throws ErrorOf<kind> naming the file and the tensor when it is absent.
  const StoredTensor& at(std::string_view name) const;
  /// The bytes of a tensor, straight from the mapping.
  std::span<const std::byte> bytes(std::string_view name) const;

 private:
  size_t index_of(std::string_view name) const;

  std::filesystem::path path_;
  ErrorKind kind_;
  std::shared_ptr<const MappedFile> mapping_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::span<const std::byte>> spans_;  // parallel to tensors_
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
  uint64_t data_offset_ = 0;
};

/// Writes a safetensors file whose tensors arrive one by one, in any order, from any thread.
///
/// The table is known first; the data are laid out in its order, wider element types first so that each tensor is
/// aligned. The file is written beside its target and renamed by finish(): until then, and after any failure, the
/// target is untouched and nothing else is left behind.
class SafetensorsWriter {
 public:
  /// Reserves the whole file on disk, so that a full disk shows here.
  /// @throws CheckpointError naming the file: cannot be made, disk full, a name given twice
  SafetensorsWriter(const std::filesystem::path& path, std::vector<StoredTensor> table,
                    const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Writes the data of table[index], all of it.
  void write(size_t index, std::span<const std::byte> bytes);
  /// Writes the next bytes of table[index]. One thread a tensor.
  void append(size_t index, std::span<const std::byte> bytes);
  /// What stands before the data: length and table.
  const std::string& header() const { return header_; }
  uint64_t num_bytes() const { return num_bytes_; }
  /// Syncs and renames. Every tensor must have been written.
  void finish();

 private:
  std::vector<StoredTensor> table_;
  std::vector<uint64_t> offsets_;
  std::vector<int64_t> num_written_;  // bytes of each tensor
  std::string header_;
  uint64_t num_bytes_ = 0;
  std::unique_ptr<AtomicFile> file_;
};

/// A tensor with its data, for write_safetensors.
struct TensorBytes {
  StoredTensor tensor;
  std::span<const std::byte> bytes;
};

/// Writes all tensors at once, with the promises of SafetensorsWriter.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// The weights of a Hugging Face folder: one file, or the shards of an index.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(std::vector<SafetensorsFile> files);

  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Names of all tensors, sorted.
  std::vector<std::string> names() const;
  /// The file that holds the tensor; null when none does.
  const SafetensorsFile* find_file(std::string_view name) const;
  const StoredTensor* find(std::string_view name) const;
  /// @throws CheckpointError naming the folder and the tensor when it is absent
  const StoredTensor& at(std::string_view name) const;
  std::span<const std::byte> bytes(std::string_view name) const;

 private:
  const SafetensorsFile& file_of(std::string_view name) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> file_index_;
};

/// Opens the shards named by `folder/model.safetensors.index.json` if that exists, else `folder/model.safetensors`;
/// no other file of the folder is read. A non-empty `weights_file` is read instead of both; relative to the working
/// directory, else to the folder.
///
/// @throws CheckpointError: no weights (names the folder), a shard that is missing, a tensor the index promises but
///         its shard lacks, a tensor held by two shards, any fault of a file
SafetensorsFolder open_hf_weights(const std::filesystem::path& folder, const std::filesystem::path& weights_file = {});

}  // namespace ballast
