// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_writer.h"

#include <utility>

#include "checkpoint/checksum.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "files/file_error.h"
#include "files/safetensors.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

ManifestFile write_document(const fs::path& folder, const std::string& name, const std::string& text) {
  write_file(folder / name, text, ErrorKind::kCheckpoint);
  return {name, text.size(), checksum_of(text)};
}

std::vector<SnapshotTensor> all_tensors(const std::vector<CheckpointTensors>& files) {
  std::vector<SnapshotTensor> tensors;
  for (const CheckpointTensors& file : files) tensors.insert(tensors.end(), file.tensors.begin(), file.tensors.end());
  return tensors;
}

/// A name beside `path` that is free.
fs::path set_aside_name(const fs::path& path) {
  fs::path name = path.string() + ".damaged";
  for (int i = 2; fs::exists(name); ++i) name = path.string() + ".damaged-" + std::to_string(i);
  return name;
}

}  // namespace

CheckpointWriter::CheckpointWriter(fs::path target, CheckpointContent content)
    : target_(std::move(target)),
      content_(std::move(content)),
      snapshot_(std::make_unique<Snapshot>(all_tensors(content_.tensor_files))) {}

void CheckpointWriter::write() {
  AtomicFolder folder(target_, ErrorKind::kCheckpoint);
  write_files(folder.path());
  set_aside_old();
  folder.publish();
}

void CheckpointWriter::write_files(const fs::path& folder) {
  Manifest manifest;
  manifest.program = BALLAST_VERSION;
  manifest.kind = content_.kind;
  manifest.step = content_.step;
  manifest.config_digest = checksum_of(content_.config);
  write_tensors(folder, manifest);
  manifest.files.push_back(write_document(folder, kConfigName, content_.config));
  for (const auto& [name, text] : content_.documents) manifest.files.push_back(write_document(folder, name, text));
  const std::string table = to_json(manifest);
  write_document(folder, kManifestName, table);
  write_document(folder, kCompleteName, checksum_of(table) + "\n");
}

void CheckpointWriter::write_tensors(const fs::path& folder, Manifest& manifest) {
  struct Place {
    SafetensorsWriter* writer;
    size_t index;
  };
  std::vector<std::unique_ptr<SafetensorsWriter>> writers;
  std::vector<Place> places;  // of the snapshot's tensors
  for (const CheckpointTensors& file : content_.tensor_files) {
    std::vector<StoredTensor> table;
    for (const SnapshotTensor& tensor : file.tensors) table.push_back(tensor.tensor);
    writers.push_back(std::make_unique<SafetensorsWriter>(folder / file.file_name, std::move(table),
                                                          std::map<std::string, std::string>{}));
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      places.push_back({writers.back().get(), i});
      const StoredTensor& tensor = file.tensors[i].tensor;
      TensorPiece piece{manifest.files.size(), std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape, {}};
      manifest.tensors.push_back({tensor, {std::move(piece)}});
    }
    manifest.files.push_back(
        {file.file_name, writers.back()->num_bytes(), checksum_of(std::string_view(writers.back()->header()))});
  }
  std::vector<Checksum> checksums(places.size());
  snapshot_->read([&](size_t tensor, std::span<const std::byte> chunk) {
    checksums[tensor].update(chunk);
    places[tensor].writer->append(places[tensor].index, chunk);
  });
  for (size_t i = 0; i < checksums.size(); ++i) manifest.tensors[i].pieces.front().checksum = checksums[i].text();
  for (const auto& writer : writers) writer->finish();
}

void CheckpointWriter::set_aside_old() {
  std::error_code error;
  if (!fs::exists(target_) || fs::is_empty(target_, error)) return;
  const fs::path aside = set_aside_name(target_);
  fs::rename(target_, aside, error);
  if (error) throw_system_error(ErrorKind::kCheckpoint, target_, "cannot be set aside", error.value());
  log_warning("checkpoint: " + target_.string() + " was there already; it is now " + aside.filename().string());
}

}  // namespace ballast
