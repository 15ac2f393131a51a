// SPDX-License-Identifier: Apache-2.0
// What the tests of public bugs share: small data files, runs on them, and what the program says about them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <span>

#include "files/safetensors.h"
#include "support/program.h"

namespace ballast::testing {

using Ids = std::vector<int32_t>;
using Words = std::vector<std::string>;

inline const std::string kGoldenLlama = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/llama";
inline const std::string kGoldenQwen3Moe = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/qwen3_moe";
inline const std::string kGoldenGptOss = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/gpt_oss";

/// `count` ids of a vocabulary of 128, none of them 0, that do not repeat soon.
inline Ids some_ids(int count, int seed = 0) {
  Ids ids;
  for (int i = 0; i < count; ++i) ids.push_back(1 + (seed * 41 + i * (17 + 2 * seed)) % 127);
  return ids;
}

/// JSON lines of token ids.
inline void write_documents(const ProgramFolder& folder, const std::string& file, const std::vector<Ids>& documents) {
  std::filesystem::create_directories((folder.path() / file).parent_path());
  std::string lines;
  for (const Ids& ids : documents) lines += nlohmann::json{{"text", ids}}.dump() + "\n";
  folder.file(file, lines);
}

/// Keys for the documents of data/, in their order, with ids in them.
inline Words document_keys(const Words& more = {}) {
  Words words = {"dataset_type=hf", "hf_path=data", "tokenize_train_data=false", "tokenize_eval_data=false",
                 "enable_data_shuffling=false"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// An integer tensor of a data file.
template <class Element>
struct NamedMatrix {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
  std::vector<Element> values;
};

template <class Element>
void write_tensors(const std::filesystem::path& path, const std::vector<NamedMatrix<Element>>& matrices) {
  std::vector<TensorBytes> tensors;
  for (const auto& matrix : matrices) {
    tensors.push_back({{matrix.name, matrix.type, matrix.shape}, std::as_bytes(std::span(matrix.values))});
  }
  write_safetensors(path, tensors);
}

/// The file of dataset_type=recorded: steps of `rows` rows, all `length` + 1 tokens wide, step after step.
inline void write_recorded(const std::filesystem::path& path, int64_t rows, int64_t length, const Ids& tokens,
                           const Ids& segments) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(tokens.size()) / rows / (length + 1), rows, length + 1};
  write_tensors<int32_t>(
      path, {{"batches", StoredType::kI32, shape, tokens}, {"segments", StoredType::kI32, shape, segments}});
}

/// A run of a golden model, Llama if not named; dtype, batch and data are the caller's.
inline Words golden_llama_run(const std::string& command, const Words& more, const std::string& model = kGoldenLlama) {
  Words words = {command,        "configs/base.yml",           "run_name=t",    "base_output_directory=out",
                 "hardware=cpu", "enable_checkpointing=false", "dtype=float32", "weight_dtype=float32",
                 "steps=1",      "hf_model_path=" + model};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Runs to the end and gives the records of a kind.
inline std::vector<nlohmann::json> records_of(const ProgramFolder& folder, const Words& words,
                                              const std::string& kind = "train") {
  const ProgramResult result = folder.run(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return read_records(folder.path() / "out/t/metrics.jsonl", kind);
}

/// Equal to `relative` of every value, step by step.
inline void expect_near(const std::vector<nlohmann::json>& a, const std::vector<nlohmann::json>& b,
                        const std::string& tag, double relative) {
  ASSERT_EQ(a.size(), b.size());
  const std::vector<double> x = series(a, tag), y = series(b, tag);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(x[i], y[i], relative * std::max(std::abs(x[i]), std::abs(y[i]))) << tag << " step " << i;
  }
}

/// The fp32 tensors of a file.
inline std::map<std::string, std::vector<float>> read_floats(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, std::vector<float>> tensors;
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.type != StoredType::kF32) continue;
    const auto bytes = file.bytes(tensor.name);
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    tensors[tensor.name] = std::vector<float>(values, values + bytes.size() / sizeof(float));
  }
  return tensors;
}

/// `ballast probe` of a folder on rows of ids, with all gradients if asked for.
inline std::map<std::string, std::vector<float>> probe(const ProgramFolder& folder, int64_t rows, const Ids& ids,
                                                       const Ids& segments, bool has_gradients = false,
                                                       const std::string& model = kGoldenLlama) {
  const std::vector<int64_t> shape = {rows, static_cast<int64_t>(ids.size()) / rows};
  write_tensors<int32_t>(folder.path() / "in.safetensors", {{"input_ids", StoredType::kI32, shape, ids},
                                                            {"segment_ids", StoredType::kI32, shape, segments}});
  Words words = {"probe", model, "--tokens", "in.safetensors", "--out", "out.safetensors"};
  if (has_gradients) words.insert(words.end(), {"--grads", "all"});
  const ProgramResult result = folder.run(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return read_floats(folder.path() / "out.safetensors");
}

/// A copy of a golden folder in which `change` may alter each tensor.
template <class Change>
std::string changed_golden(const ProgramFolder& folder, const std::string& golden, const Change& change) {
  std::filesystem::create_directories(folder.path() / "model");
  folder.file("model/config.json", read_text(golden + "/config.json"));
  const SafetensorsFile original(golden + "/model.safetensors");
  auto values = read_floats(golden + "/model.safetensors");
  std::vector<TensorBytes> tensors;
  for (const StoredTensor& tensor : original.tensors()) {
    change(tensor.name, values.at(tensor.name));
    tensors.push_back({tensor, std::as_bytes(std::span<const float>(values.at(tensor.name)))});
  }
  write_safetensors(folder.path() / "model/model.safetensors", tensors);
  return (folder.path() / "model").string();
}

/// gpt-oss with routers that send every token to two of the four experts, probabilities 1/2 each: 0 and 1 in even
/// layers, 2 and 3 in odd ones.
inline std::string one_sided_gpt_oss(const ProgramFolder& folder) {
  return changed_golden(folder, kGoldenGptOss, [](const std::string& name, std::vector<float>& values) {
    if (name.find("mlp.router.") == std::string::npos) return;
    const bool is_odd = name.find("layers.1.") != std::string::npos || name.find("layers.3.") != std::string::npos;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_bias = name.ends_with("bias");
      values[i] = is_bias && (i / 2 == (is_odd ? 1U : 0U)) ? 40.0F : 0.0F;
    }
  });
}

/// The lines of a run's expert_load.jsonl.
inline std::vector<nlohmann::json> loads_of(const ProgramFolder& folder) {
  std::ifstream stream(folder.path() / "out/t/expert_load.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// A tiny model of eight experts, two a token, in both layers.
inline Words tiny_experts(const Words& more = {}) {
  Words words = tiny_run({"num_experts=8", "num_experts_per_tok=2", "base_moe_mlp_dim=16"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace ballast::testing
