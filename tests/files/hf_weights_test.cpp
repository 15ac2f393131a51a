// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "files/safetensors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

void write_tensor(const std::filesystem::path& path, const std::string& name, float value) {
  write_safetensors(path, {{{name, StoredType::kF32, {1}}, std::as_bytes(std::span(&value, 1))}});
}

float value_of(const SafetensorsFolder& weights, const std::string& name) {
  return *reinterpret_cast<const float*>(weights.bytes(name).data());
}

std::string fault_of(const std::filesystem::path& folder) {
  return error_line<CheckpointError>([&] { open_hf_weights(folder); });
}

TEST(HfWeights, ReadsTheSingleFileAndNoOther) {
  const TempFolder folder;
  write_tensor(folder / "model.safetensors", "a", 1);
  write_tensor(folder / "optimizer.safetensors", "b", 2);
  const SafetensorsFolder weights = open_hf_weights(folder.path());
  EXPECT_EQ(weights.names(), std::vector<std::string>{"a"});
  EXPECT_EQ(weights.find("b"), nullptr);
  EXPECT_NE(error_line<CheckpointError>([&] { weights.at("b"); }).find("has no tensor 'b'"), std::string::npos);
}

TEST(HfWeights, ReadsTheShardsOfTheIndexBeforeTheSingleFile) {
  const TempFolder folder;
  write_tensor(folder / "model.safetensors", "a", 9);
  write_tensor(folder / "model-00001-of-00002.safetensors", "a", 1);
  write_tensor(folder / "model-00002-of-00002.safetensors", "b", 2);
  folder.write("model.safetensors.index.json",
               R"({"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
               R"("b":"model-00002-of-00002.safetensors"}})");
  const SafetensorsFolder weights = open_hf_weights(folder.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(value_of(weights, "a"), 1);
  EXPECT_EQ(value_of(weights, "b"), 2);
}

TEST(HfWeights, ReadsAnotherFileByName) {
  const TempFolder folder;
  write_tensor(folder / "model.safetensors", "a", 1);
  write_tensor(folder / "model_runtime.safetensors", "a", 5);
  EXPECT_EQ(value_of(open_hf_weights(folder.path(), "model_runtime.safetensors"), "a"), 5);
  EXPECT_EQ(value_of(open_hf_weights(folder.path(), folder / "model_runtime.safetensors"), "a"), 5);
}

TEST(HfWeights, NamesTheFolderWithoutWeights) {
  const TempFolder folder;
  folder.write("other.safetensors", "");
  EXPECT_NE(fault_of(folder.path()).find(folder.path().string() + ": holds no weights"), std::string::npos);
}

TEST(HfWeights, NamesWhatTheIndexPromisesAndTheShardsLack) {
  const TempFolder folder;
  const auto set_index = [&](const std::string& content) { folder.write("model.safetensors.index.json", content); };
  set_index(R"({"weight_map":{"a":"gone.safetensors"}})");
  EXPECT_NE(fault_of(folder.path()).find("names the shard 'gone.safetensors'"), std::string::npos);
  write_tensor(folder / "gone.safetensors", "x", 1);
  EXPECT_NE(fault_of(folder.path()).find("tensor 'a' is in 'gone.safetensors', which lacks it"), std::string::npos);
  const float value = 1;
  const auto bytes = std::as_bytes(std::span(&value, 1));
  write_safetensors(folder / "second.safetensors",
                    {{{"x", StoredType::kF32, {1}}, bytes}, {{"y", StoredType::kF32, {1}}, bytes}});
  set_index(R"({"weight_map":{"x":"gone.safetensors","y":"second.safetensors"}})");
  EXPECT_NE(fault_of(folder.path()).find("tensor 'x' is also in 'gone.safetensors'"), std::string::npos)
      << fault_of(folder.path());
  set_index("{");
  EXPECT_NE(fault_of(folder.path()).find("not JSON"), std::string::npos);
  set_index("{}");
  EXPECT_NE(fault_of(folder.path()).find("weight_map"), std::string::npos);
}

}  // namespace
}  // namespace ballast
