// SPDX-License-Identifier: Apache-2.0
#include "models/hf_tensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "errors/errors.h"
#include "models/hf_layout.h"
#include "models/hf_weights.h"
#include "support/tiny_model.h"
#include "tensor/stored_tensor.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

class Mxfp4 : public ::testing::Test {
 protected:
  Mxfp4() : folder_(fs::temp_directory_path() / ("ballast_mxfp4_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Mxfp4() override { fs::remove_all(folder_); }
  void write(const std::vector<std::pair<std::string, at::Tensor>>& tensors) const {
    std::vector<TensorBytes> stored;
    for (const auto& [name, tensor] : tensors) stored.push_back(store_tensor(name, tensor));
    write_safetensors(folder_ / "model.safetensors", stored);
  }
  fs::path folder_;
};

// Byte i of the first block holds the codes i % 8 (low) and 8 + i % 8 (high): the magnitudes 0 .5 1 1.5 2 3 4 6 and
// their negatives, times 2^(128-127) = 2; the second block is scaled by 2^-2.
TEST_F(Mxfp4, DecodesTheTableOfTheFormat) {
  at::Tensor blocks = at::zeros({1, 1, 2, 16}, at::kByte);
  for (int64_t i = 0; i < 16; ++i) {
    blocks[0][0][0][i] = static_cast<int64_t>((i % 8) | ((8 + i % 8) << 4));
    blocks[0][0][1][i] = 0x25;  // low 5: 3, high 2: 1
  }
  const at::Tensor scales = at::tensor({128, 125}, at::kByte).view({1, 1, 2});
  const at::Tensor values = decode_mxfp4(blocks, scales).to(at::kFloat).flatten();
  ASSERT_EQ(values.numel(), 64);
  const std::vector<float> magnitudes = {0, 1, 2, 3, 4, 6, 8, 12};
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(values[2 * i].item<float>(), magnitudes[static_cast<size_t>(i % 8)]);
    EXPECT_EQ(values[2 * i + 1].item<float>(), -magnitudes[static_cast<size_t>(i % 8)]);
    EXPECT_EQ(values[32 + 2 * i].item<float>(), 0.75F);
    EXPECT_EQ(values[32 + 2 * i + 1].item<float>(), 0.25F);
  }
}

TEST_F(Mxfp4, APairStandsForItsTensorTransposed) {
  const at::Tensor blocks = at::randint(256, {2, 3, 1, 16}, at::kByte), scales = at::full({2, 3, 1}, 127, at::kByte);
  write({{"x.down_proj_blocks", blocks}, {"x.down_proj_scales", scales}, {"x.norm_scales", at::ones({2})}});
  const HfTensors tensors(open_hf_weights(folder_));
  EXPECT_EQ(tensors.names(), (std::vector<std::string>{"x.down_proj", "x.norm_scales"}));
  EXPECT_EQ(tensors.at("x.down_proj").description(), "BF16 [2, 32, 3]");
  EXPECT_TRUE(at::equal(tensors.read("x.down_proj"), decode_mxfp4(blocks, scales).transpose(1, 2)));
}

TEST_F(Mxfp4, HalvesThatDoNotFitAreNamed) {
  write({{"x_blocks", at::zeros({1, 2, 1, 16}, at::kByte)}, {"x_scales", at::zeros({1, 3, 1}, at::kByte)}});
  try {
    const HfTensors tensors(open_hf_weights(folder_));
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(std::string(error.what()),
              "x_blocks: is not one half of MXFP4 weights; got U8 [1, 2, 1, 16] and U8 [1, 3, 1], need U8 [E, out, "
              "groups, 16] and U8 [E, out, groups]");
  }
}

// gpt-oss with experts as released: the same model as with the decoded weights written out.
TEST_F(Mxfp4, AModelReadsEncodedExperts) {
  DecoderSpec spec = testing::tiny_spec();
  spec.emb_dim = 32;
  MoeFfnSpec experts;
  experts.router = {.num_experts = 2, .num_experts_per_tok = 1, .score = RouterScore::kLogits};
  experts.mlp_dim = 32;
  experts.names.storage = ExpertStorage::kFusedInterleaved;
  for (LayerSpec& layer : spec.layers) layer.ffn = experts;
  const auto source = testing::tiny_decoder(spec);
  std::vector<std::pair<std::string, at::Tensor>> plain, encoded;
  for (const HfTensor& tensor : hf_layout(*source)) {
    const at::Tensor values = assemble(tensor, [&](const std::string& own) {
                                for (const auto& [name, value] : source->stored_tensors()) {
                                  if (name == own) return value;
                                }
                                return at::Tensor();
                              }).contiguous();
    if (tensor.name.find("experts") == std::string::npos) {
      plain.emplace_back(tensor.name, values);
      encoded.emplace_back(tensor.name, values);
      continue;
    }
    const std::vector<int64_t> shape = {values.size(0), values.size(2), values.size(1) / 32, 16};
    const at::Tensor blocks = at::randint(256, shape, at::kByte);
    const at::Tensor scales = at::randint(120, 127, {shape[0], shape[1], shape[2]}, at::kByte);
    plain.emplace_back(tensor.name, decode_mxfp4(blocks, scales).transpose(1, 2).contiguous());
    encoded.emplace_back(tensor.name + "_blocks", blocks);
    encoded.emplace_back(tensor.name + "_scales", scales);
  }
  std::vector<std::vector<WeightTensor>> read;
  for (const auto& tensors : {plain, encoded}) {
    write(tensors);
    const auto decoder = testing::tiny_decoder(spec);
    load_hf_weights(*decoder, folder_.string());
    read.push_back(decoder->stored_tensors());
  }
  for (size_t i = 0; i < read[0].size(); ++i) {
    EXPECT_TRUE(at::equal(read[0][i].tensor, read[1][i].tensor)) << read[0][i].name;
  }
}

}  // namespace
}  // namespace ballast
