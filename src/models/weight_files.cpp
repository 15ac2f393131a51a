// SPDX-License-Identifier: Apache-2.0
#include "models/weight_files.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "errors/log.h"
#include "files/atomic_file.h"
#include "models/checkpoint_weights.h"
#include "models/decoder.h"
#include "models/hf_layout.h"
#include "models/hf_weights.h"
#include "models/weight_fit.h"
#include "tensor/stored_tensor.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

/// A decoder that has names and shapes and takes no memory.
Decoder shape_decoder(const DecoderSpec& spec) {
  const Precision precision = Precision::resolve("float32", "float32", at::Device(at::kCPU));
  return Decoder(spec, precision, single_rank_world(), at::Device(at::kMeta), {});
}

/// A folder as it is.
class HfWeightFiles final : public WeightFiles {
 public:
  HfWeightFiles(SafetensorsFolder folder, std::vector<StoredTensor> tensors)
      : WeightFiles(std::move(tensors)), folder_(std::move(folder)) {}
  at::Tensor read(const StoredTensor& tensor) const override {
    return borrow_stored(tensor, folder_.bytes(tensor.name));
  }

 private:
  SafetensorsFolder folder_;
};

/// A folder's weights as our tensors.
class HfAsOwnFiles final : public WeightFiles {
 public:
  HfAsOwnFiles(HfTensors weights, std::vector<StoredTensor> tensors, const std::vector<HfTensor>& layout)
      : WeightFiles(std::move(tensors)), weights_(std::move(weights)) {
    for (const HfTensor& tensor : layout) {
      for (const HfPart& part : tensor.parts) pieces_[part.own_name].emplace_back(tensor.name, part);
    }
  }
  at::Tensor read(const StoredTensor& tensor) const override {
    const auto& pieces = pieces_.at(tensor.name);
    const auto& [first_name, first] = pieces.front();
    if (first.is_whole()) return weights_.read(first_name);
    const at::Tensor own = at::empty(tensor.shape, at::TensorOptions().dtype(tensor_type(tensor)));
    for (const auto& [name, part] : pieces) part.view_of_own(own).copy_(part.view_of_hf(weights_.read(name)));
    return own;
  }

 private:
  HfTensors weights_;
  std::map<std::string, std::vector<std::pair<std::string, HfPart>>> pieces_;  // by the name of our tensor
};

/// A checkpoint's weights as the tensors of a folder. Tensors that follow one another and are made of the same ones of
/// ours cost one read of those.
class CheckpointAsHfFiles final : public WeightFiles {
 public:
  CheckpointAsHfFiles(const CheckpointReader& reader, std::vector<StoredTensor> tensors,
                      const std::vector<HfTensor>& layout)
      : WeightFiles(std::move(tensors)), reader_(reader) {
    for (const HfTensor& tensor : layout) layout_.emplace(tensor.name, tensor);
  }
  at::Tensor read(const StoredTensor& tensor) const override {
    const HfTensor& wanted = layout_.at(tensor.name);
    std::map<std::string, at::Tensor> own;
    for (const HfPart& part : wanted.parts) {
      const auto held = held_.find(part.own_name);
      own.emplace(part.own_name, held != held_.end() ? held->second : read_own(part.own_name));
    }
    held_ = std::move(own);
    return assemble(wanted, [&](const std::string& name) { return held_.at(name); });
  }

 private:
  at::Tensor read_own(const std::string& name) const {
    const ManifestTensor& entry = *reader_.find(name);
    const at::Tensor values = at::empty(entry.tensor.shape, at::TensorOptions().dtype(tensor_type(entry.tensor)));
    TensorReads reads;
    reads.add(entry, values);
    reads.run(reader_);
    return values;
  }

  const CheckpointReader& reader_;
  std::map<std::string, HfTensor> layout_;
  mutable std::map<std::string, at::Tensor> held_;  // what the tensor read last is made of
};

bool is_floating(const StoredTensor& tensor) {
  return at::isFloatingType(tensor_type(tensor));
}

StoredTensor as_type(StoredTensor tensor, const std::optional<StoredType>& type) {
  if (type && is_floating(tensor)) tensor.type = *type;
  return tensor;
}

/// Indices of the tensors of each file, in order.
std::vector<std::vector<size_t>> plan_shards(const std::vector<StoredTensor>& table, uint64_t max_shard_bytes) {
  std::vector<std::vector<size_t>> shards(1);
  uint64_t num_bytes = 0;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto size = static_cast<uint64_t>(table[i].num_bytes());
    if (!shards.back().empty() && (size > max_shard_bytes || num_bytes > max_shard_bytes - size)) {
      shards.emplace_back();
      num_bytes = 0;
    }
    shards.back().push_back(i);
    num_bytes += size;
  }
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

void write_index(const fs::path& folder, const std::map<std::string, std::string>& file_of, uint64_t num_bytes) {
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", num_bytes}}}, {"weight_map", file_of}};
  write_file(folder / "model.safetensors.index.json", index.dump(2) + "\n", ErrorKind::kCheckpoint);
}

}  // namespace

std::unique_ptr<WeightFiles> open_hf_weight_files(const fs::path& folder, const DecoderSpec& spec) {
  const Decoder decoder = shape_decoder(spec);
  HfTensors weights(open_hf_weights(folder));
  check_hf_weights(decoder, weights, folder.string());
  const std::vector<HfTensor> layout = hf_layout(decoder);
  std::map<std::string, StoredType> types;
  for (const HfTensor& tensor : layout) {
    for (const HfPart& part : tensor.parts) types.emplace(part.own_name, weights.at(tensor.name).type);
  }
  std::vector<StoredTensor> tensors;
  for (const auto& [name, tensor] : decoder.stored_tensors()) {
    tensors.push_back({.name = name, .type = types.at(name), .shape = tensor.sizes().vec()});
  }
  return std::make_unique<HfAsOwnFiles>(std::move(weights), std::move(tensors), layout);
}

std::unique_ptr<WeightFiles> open_hf_weight_files(const fs::path& folder) {
  SafetensorsFolder weights = open_hf_weights(folder);
  std::vector<StoredTensor> tensors;
  for (const SafetensorsFile& file : weights.files()) {
    tensors.insert(tensors.end(), file.tensors().begin(), file.tensors().end());
  }
  return std::make_unique<HfWeightFiles>(std::move(weights), std::move(tensors));
}

std::unique_ptr<WeightFiles> open_checkpoint_weight_files(const CheckpointReader& reader, const DecoderSpec& spec) {
  const Decoder decoder = shape_decoder(spec);
  check_checkpoint_weights(decoder, reader);
  const std::vector<HfTensor> layout = hf_layout(decoder);
  std::vector<StoredTensor> tensors;
  for (const HfTensor& tensor : layout) {
    const StoredType type = reader.find(tensor.parts[0].own_name)->tensor.type;
    tensors.push_back({.name = tensor.name, .type = type, .shape = tensor.shape});
  }
  return std::make_unique<CheckpointAsHfFiles>(reader, std::move(tensors), layout);
}

uint64_t write_hf_weights(const fs::path& folder, const WeightFiles& weights, const HfWriteOptions& options) {
  std::vector<StoredTensor> table;
  for (const StoredTensor& tensor : weights.tensors()) table.push_back(as_type(tensor, options.type));
  const std::vector<std::vector<size_t>> shards = plan_shards(table, options.max_shard_bytes);
  std::map<std::string, std::string> file_of;
  std::vector<std::string> overflowed;
  uint64_t num_bytes = 0;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string name = shard_name(shard, shards.size());
    std::vector<StoredTensor> shard_table;
    for (const size_t i : shards[shard]) shard_table.push_back(table[i]);
    SafetensorsWriter writer(folder / name, shard_table, {{"format", "pt"}});
    for (size_t place = 0; place < shard_table.size(); ++place) {
      const StoredTensor& tensor = shard_table[place];
      const at::Tensor stored = weights.read(weights.tensors()[shards[shard][place]]);
      const at::Tensor values = stored.to(tensor_type(tensor)).contiguous();
      const bool may_overflow = values.scalar_type() == at::kHalf && stored.scalar_type() != at::kHalf;
      if (may_overflow && at::isinf(values).sum().item<int64_t>() != at::isinf(stored).sum().item<int64_t>()) {
        overflowed.push_back(tensor.name);
      }
      writer.write(place, store_tensor(tensor.name, values).bytes);
      file_of[tensor.name] = name;
      num_bytes += static_cast<uint64_t>(tensor.num_bytes());
    }
    writer.finish();
  }
  if (shards.size() > 1) write_index(folder, file_of, num_bytes);
  if (!overflowed.empty()) log_warning("values beyond float16 became infinite; " + listed("tensors", overflowed));
  return num_bytes;
}

std::vector<SnapshotTensor> master_tensors(const WeightFiles& weights) {
  std::vector<SnapshotTensor> masters;
  for (const StoredTensor& tensor : weights.tensors()) {
    SnapshotTensor master{.tensor = as_type(tensor, StoredType::kF32), .bytes = {}, .owner = nullptr};
    const auto width = static_cast<size_t>(stored_type_bytes(master.tensor.type));
    const at::ScalarType type = tensor_type(master.tensor);
    // Chunks of a tensor come in order; what they are cut from is read once.
    const auto whole = std::make_shared<at::Tensor>();
    master.make = [&weights, &tensor, width, type, whole](size_t offset, std::span<std::byte> chunk) {
      const auto begin = static_cast<int64_t>(offset / width);
      const auto count = static_cast<int64_t>(chunk.size() / width);
      if (!whole->defined()) *whole = weights.read(tensor).flatten();
      at::from_blob(chunk.data(), {count}, at::TensorOptions().dtype(type)).copy_(whole->narrow(0, begin, count));
      if (begin + count == tensor.num_elements()) whole->reset();
    };
    masters.push_back(std::move(master));
  }
  return masters;
}

}  // namespace ballast
