// SPDX-License-Identifier: Apache-2.0
#include "models/checkpoint_weights.h"

#include <filesystem>

#include "checkpoint/checkpoint_folder.h"
#include "models/hf_weights.h"
#include "models/weight_fit.h"
#include "tensor/stored_tensor.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

std::span<std::byte> writable_bytes(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

bool is_moment(const std::string& name) {
  return name.starts_with(kFirstMomentPrefix) || name.starts_with(kSecondMomentPrefix);
}

/// The checkpoint that `path` names; empty if it is none.
fs::path checkpoint_at(fs::path path) {
  if (!fs::exists(path) && path.filename() == "items") path = path.parent_path();
  return is_checkpoint_folder(path) ? path : fs::path();
}

}  // namespace

void TensorReads::add(const ManifestTensor& entry, const at::Tensor& target) {
  const at::ScalarType type = tensor_type(entry.tensor);
  if (target.scalar_type() == type && target.is_contiguous() && target.device().is_cpu()) {
    targets_.push_back({&entry, writable_bytes(target)});
    return;
  }
  const at::Tensor stored = at::empty(entry.tensor.shape, at::TensorOptions().dtype(type));
  targets_.push_back({&entry, writable_bytes(stored)});
  conversions_.push_back({stored, target});
}

void TensorReads::run(const CheckpointReader& reader) {
  const at::NoGradGuard no_grad;
  reader.read(targets_);
  for (const Conversion& conversion : conversions_) conversion.target.copy_(conversion.stored);
}

void check_checkpoint_weights(const Decoder& decoder, const CheckpointReader& reader) {
  std::vector<StoredTensor> wanted;
  for (const auto& [name, tensor] : decoder.stored_tensors()) {
    wanted.push_back({.name = name, .shape = tensor.sizes().vec()});
  }
  WeightFit fit(wanted, [&](const std::string& name) {
    const ManifestTensor* entry = reader.find(name);
    return entry == nullptr ? nullptr : &entry->tensor;
  });
  for (const ManifestTensor& entry : reader.manifest().tensors) {
    if (!is_moment(entry.tensor.name) && !fit.wants(entry.tensor.name)) fit.add_unexpected(entry.tensor.name);
  }
  fit.check("checkpoint: " + reader.folder().string(), "the model keys of its config.yml");
}

void add_decoder_reads(Decoder& decoder, const CheckpointReader& reader, TensorReads& reads) {
  check_checkpoint_weights(decoder, reader);
  for (const auto& [name, tensor] : decoder.stored_tensors()) reads.add(*reader.find(name), tensor);
  for (const UnitPtr& unit : decoder.units()) unit->drop_copies();
}

void load_checkpoint_weights(Decoder& decoder, const CheckpointReader& reader) {
  TensorReads reads;
  add_decoder_reads(decoder, reader, reads);
  reads.run(reader);
}

SnapshotTensor snapshot_of(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor stored = tensor.detach().cpu().contiguous();
  TensorBytes bytes = store_tensor(name, stored);
  return {std::move(bytes.tensor), bytes.bytes, std::make_shared<at::Tensor>(stored)};
}

std::vector<SnapshotTensor> decoder_tensors(const Decoder& decoder) {
  std::vector<SnapshotTensor> tensors;
  for (const auto& [name, tensor] : decoder.stored_tensors()) tensors.push_back(snapshot_of(name, tensor));
  return tensors;
}

void load_weights(Decoder& decoder, const std::string& path) {
  const fs::path checkpoint = checkpoint_at(path);
  if (checkpoint.empty()) {
    load_hf_weights(decoder, path);
  } else {
    load_checkpoint_weights(decoder, CheckpointReader(checkpoint));
  }
}

}  // namespace ballast
