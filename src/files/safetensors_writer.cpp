// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "files/atomic_file.h"
#include "files/file_error.h"
#include "files/safetensors.h"

namespace ballast {
namespace {

constexpr size_t kHeaderAlignment = 8;

void refuse_double_names(const std::filesystem::path& path, const std::vector<StoredTensor>& table) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : table) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      throw_file_error(ErrorKind::kCheckpoint, path,
                       {.what = "tensor '" + tensor.name + "' cannot be stored: its name is taken"});
    }
  }
}

/// Table indices in the order of the data: wider elements first keep every tensor aligned without padding.
std::vector<size_t> data_order(const std::vector<StoredTensor>& table) {
  std::vector<size_t> order(table.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return stored_type_bytes(table[a].type) > stored_type_bytes(table[b].type);
  });
  return order;
}

/// The length prefix and the header, padded with spaces so that the data start aligned.
std::string header_of(const nlohmann::ordered_json& entries) {
  std::string header = entries.dump();
  header.append((kHeaderAlignment - header.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  const uint64_t length = header.size();
  std::string prefix(sizeof(length), '\0');
  std::memcpy(prefix.data(), &length, sizeof(length));
  return prefix + header;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<StoredTensor> table,
                                     const std::map<std::string, std::string>& metadata)
    : table_(std::move(table)), offsets_(table_.size()), num_written_(table_.size(), 0) {
  refuse_double_names(path, table_);
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  if (!metadata.empty()) entries["__metadata__"] = metadata;
  uint64_t data_bytes = 0;
  for (const size_t i : data_order(table_)) {
    offsets_[i] = data_bytes;
    data_bytes += static_cast<uint64_t>(table_[i].num_bytes());
    entries[table_[i].name] = {{"dtype", stored_type_name(table_[i].type)},
                               {"shape", table_[i].shape},
                               {"data_offsets", {offsets_[i], data_bytes}}};
  }
  header_ = header_of(entries);
  for (uint64_t& offset : offsets_) offset += header_.size();
  num_bytes_ = header_.size() + data_bytes;
  file_ = std::make_unique<AtomicFile>(path, ErrorKind::kCheckpoint);
  file_->reserve(num_bytes_);
  file_->append(header_);
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(size_t index, std::span<const std::byte> bytes) {
  BALLAST_CHECK(index < table_.size() && static_cast<int64_t>(bytes.size()) == table_[index].num_bytes(),
                "a tensor is written whole");
  append(index, bytes);
}

void SafetensorsWriter::append(size_t index, std::span<const std::byte> bytes) {
  BALLAST_CHECK(index < table_.size(), "the tensor is in the table");
  int64_t& num_written = num_written_[index];
  BALLAST_CHECK(static_cast<int64_t>(bytes.size()) <= table_[index].num_bytes() - num_written, table_[index].name);
  file_->write_at(offsets_[index] + static_cast<uint64_t>(num_written), bytes);
  num_written += static_cast<int64_t>(bytes.size());
}

void SafetensorsWriter::finish() {
  for (size_t i = 0; i < table_.size(); ++i) {
    BALLAST_CHECK(num_written_[i] == table_[i].num_bytes(), "a tensor has no data yet: " + table_[i].name);
  }
  file_->commit();
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<StoredTensor> table;
  for (const TensorBytes& entry : tensors) table.push_back(entry.tensor);
  SafetensorsWriter writer(path, std::move(table), metadata);
  for (size_t i = 0; i < tensors.size(); ++i) writer.write(i, tensors[i].bytes);
  writer.finish();
}

}  // namespace ballast
