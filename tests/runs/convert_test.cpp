// SPDX-License-Identifier: Apache-2.0
// `ballast convert`: Hugging Face folders and checkpoints become one another.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "checkpoint/checkpoint_writer.h"
#include "files/safetensors.h"
#include "support/program.h"

namespace ballast::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kGolden = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/";
const std::vector<std::string> kFamilies = {"llama", "llama2",    "qwen3",   "olmo3",       "mixtral",    "qwen3_moe",
                                            "olmoe", "flex_olmo", "gpt_oss", "deepseek_v2", "deepseek_v3"};

/// Bytes of every tensor by "name: type and shape".
std::map<std::string, std::string> tensors_of(const fs::path& folder) {
  std::map<std::string, std::string> tensors;
  const SafetensorsFolder weights = open_hf_weights(folder);
  for (const std::string& name : weights.names()) {
    const auto bytes = weights.bytes(name);
    tensors[name + ": " + weights.at(name).description()] = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  return tensors;
}

void expect_converted(const ProgramFolder& folder, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"convert"};
  all.insert(all.end(), words.begin(), words.end());
  const ProgramResult result = folder.run(all);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, words[1] + "\n");
}

/// fp32 bits to bfloat16 bits: to nearest, ties to even. No value of the goldens is NaN.
uint16_t bfloat16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

TEST(Convert, FamiliesComeBackBitEqual) {
  const ProgramFolder folder;
  for (const std::string& family : kFamilies) {
    expect_converted(folder, {kGolden + family, family});
    expect_converted(folder, {family, family + "-hf"});
    EXPECT_EQ(tensors_of(folder.path() / (family + "-hf")), tensors_of(kGolden + family)) << family;
    EXPECT_FALSE(fs::exists(folder.path() / (family + "-hf/model.safetensors.index.json")));
  }
  const SafetensorsFile file(folder.path() / "qwen3-hf/model.safetensors");
  EXPECT_EQ(file.find("lm_head.weight"), nullptr) << "a tied head is written once";
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(Convert, NarrowTypesComeBackBitEqual) {
  const ProgramFolder folder;
  for (const std::string type : {"bfloat16", "float16"}) {
    expect_converted(folder, {kGolden + "qwen3", type, "--names", "hf", "--dtype", type});
    expect_converted(folder, {type, type + "-checkpoint"});
    expect_converted(folder, {type + "-checkpoint", type + "-back", "--dtype", type});
    EXPECT_EQ(tensors_of(folder.path() / (type + "-back")), tensors_of(folder.path() / type));
    EXPECT_EQ(json::parse(read_text(folder.path() / (type + "-back") / "config.json")).at("dtype"), type);
  }
  const SafetensorsFile narrow(folder.path() / "bfloat16/model.safetensors");
  const SafetensorsFile wide(kGolden + "qwen3/model.safetensors");
  for (const StoredTensor& tensor : wide.tensors()) {
    const auto values = wide.bytes(tensor.name), rounded = narrow.bytes(tensor.name);
    ASSERT_EQ(rounded.size() * 2, values.size());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      float value = 0;
      uint16_t bits = 0;
      std::memcpy(&value, values.data() + i * 4, 4);
      std::memcpy(&bits, rounded.data() + i * 2, 2);
      ASSERT_EQ(bits, bfloat16_of(value)) << tensor.name << " " << i;
    }
  }
}

TEST(Convert, ShardsHoldTheSameTensors) {
  const ProgramFolder folder;
  expect_converted(folder, {kGolden + "llama", "a=b/whole"});  // a path that looks like a key
  expect_converted(folder, {"a=b/whole", "shards", "--max_shard_size", "10KB"});
  EXPECT_EQ(tensors_of(folder.path() / "shards"), tensors_of(kGolden + "llama"));
  EXPECT_FALSE(fs::exists(folder.path() / "shards/model.safetensors"));
  const json index = json::parse(read_text(folder.path() / "shards/model.safetensors.index.json"));
  uint64_t total = 0;
  const SafetensorsFolder shards = open_hf_weights(folder.path() / "shards");
  for (const SafetensorsFile& file : shards.files()) {
    uint64_t size = 0;
    for (const StoredTensor& tensor : file.tensors()) {
      size += static_cast<uint64_t>(tensor.num_bytes());
      EXPECT_EQ(index.at("weight_map").at(tensor.name), file.path().filename().string());
    }
    EXPECT_TRUE(size <= 10'000 || file.tensors().size() == 1) << file.path();
    total += size;
  }
  EXPECT_EQ(index.at("metadata").at("total_size"), total);
  // Shards are joined again, and their checkpoint is that of the whole file.
  expect_converted(folder, {"shards", "again"});
  EXPECT_EQ(read_text(folder.path() / "again/model-r00000.safetensors"),
            read_text(folder.path() / "a=b/whole/model-r00000.safetensors"));
}

/// Losses of two steps that start from the given weights.
std::vector<double> losses_from(const ProgramFolder& folder, const std::vector<std::string>& weights) {
  std::vector<std::string> words = {"train"};
  words.insert(words.end(), weights.begin(), weights.end());
  for (const char* word : {"run_name=t", "base_output_directory=out", "hardware=cpu", "dataset_type=synthetic",
                           "max_target_length=32", "per_device_batch_size=2", "steps=2", "learning_rate=1e-2",
                           "warmup_steps_fraction=0", "dtype=float32", "enable_checkpointing=false"}) {
    words.emplace_back(word);
  }
  fs::remove_all(folder.path() / "out");
  const ProgramResult result = folder.run(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return series(read_records(folder.path() / "out/t/metrics.jsonl", "train"), "learning/loss");
}

TEST(Convert, TrainingGoesOnAlikeFromEitherSide) {
  const ProgramFolder folder;
  for (const std::string& family : kFamilies) {
    expect_converted(folder, {kGolden + family, family});
    expect_converted(folder, {family, family + "-hf"});
    const std::vector<double> losses = losses_from(folder, {"configs/base.yml", "hf_model_path=" + kGolden + family});
    ASSERT_EQ(losses.size(), 2U);
    EXPECT_EQ(losses_from(folder, {family + "/config.yml", "load_parameters_path=" + family}), losses) << family;
    EXPECT_EQ(losses_from(folder, {"configs/base.yml", "hf_model_path=" + family + "-hf"}), losses) << family;
  }
}

TEST(Convert, TakesTheNewestUsableCheckpointOfARun) {
  const ProgramFolder folder;
  folder.file("tokenizer_config.json", R"({"bos_token": "<|bos|>", "eos_token": "<|eos|>"})");
  const fs::path tokenizer = fs::path(BALLAST_SOURCE_DIR) / "examples/data/kjv/tokenizer.json";
  fs::copy_file(tokenizer, folder.path() / "own.json");
  const std::vector<std::string> keys = {"enable_checkpointing=true", "checkpoint_period=2",
                                         "tokenizer_path=" + (folder.path() / "own.json").string()};
  ASSERT_EQ(folder.run(tiny_run(keys)).exit_code, 0);
  const ProgramResult newest = folder.run({"convert", "out/t/", "newest/"});
  ASSERT_EQ(newest.exit_code, 0) << newest.err;
  EXPECT_NE(newest.err.find("out/t/checkpoints/5 is the newest checkpoint of out/t"), std::string::npos) << newest.err;
  const auto stored = [&](const std::string& step) {
    std::map<std::string, std::string> tensors;
    const SafetensorsFile file(folder.path() / "out/t/checkpoints" / step / "model-r00000.safetensors");
    for (const StoredTensor& tensor : file.tensors()) {
      const auto bytes = file.bytes(tensor.name);
      tensors[tensor.name + ": " + tensor.description()] = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    return tensors;
  };
  EXPECT_EQ(tensors_of(folder.path() / "newest"), stored("5"));
  // The tokenizer goes with it, and its ids into config.json.
  EXPECT_EQ(read_text(folder.path() / "newest/tokenizer.json"), read_text(tokenizer));
  EXPECT_TRUE(fs::exists(folder.path() / "newest/tokenizer_config.json"));
  const json config = json::parse(read_text(folder.path() / "newest/config.json"));
  EXPECT_EQ(config.at("bos_token_id"), 0);
  EXPECT_EQ(config.at("eos_token_id"), 1);
  EXPECT_EQ(config.at("pad_token_id"), 2);

  damage_file(folder.path() / "out/t/checkpoints/5/model-r00000.safetensors");
  const ProgramResult older = folder.run({"convert", "out/t/checkpoints/", "older"});
  ASSERT_EQ(older.exit_code, 0) << older.err;
  EXPECT_NE(older.err.find("has another checksum: damaged"), std::string::npos) << older.err;
  EXPECT_EQ(tensors_of(folder.path() / "older"), stored("4"));
}

TEST(Convert, BadInputEndsInOneLine) {
  const ProgramFolder folder;
  expect_converted(folder, {kGolden + "llama", "good"});
  fs::create_directory(folder.path() / "nothing");
  fs::create_directory(folder.path() / "full");
  std::ofstream(folder.path() / "full/a") << "a";
  std::ofstream(folder.path() / "file") << "a";
  fs::copy(folder.path() / "good", folder.path() / "no-marker");
  fs::remove(folder.path() / "no-marker/COMPLETE");
  fs::copy(folder.path() / "good", folder.path() / "damaged");
  damage_file(folder.path() / "damaged/model-r00000.safetensors");
  CheckpointContent newer;
  newer.config = "steps: 1\nkey_of_the_future: 3\n";
  CheckpointWriter(folder.path() / "newer", newer).write();
  CheckpointContent other;
  other.config = "base_emb_dim: 8\nbase_num_decoder_layers: 1\nhead_dim: 4\n";
  CheckpointWriter(folder.path() / "other", other).write();
  const size_t num_entries = static_cast<size_t>(std::distance(fs::directory_iterator(folder.path()), {}));
  struct Case {
    std::vector<std::string> words;
    int exit_code;
    std::string line;
  };
  const std::vector<Case> cases = {
      {{}, 2, "takes two folders"},
      {{"good"}, 2, "takes two folders"},
      {{"good", "to", "third"}, 2, "takes two folders"},
      {{"good", "to", "--what"}, 2, "unknown option; got --what"},
      {{"good", "to", "--dtype"}, 2, "an option lacks its value; got --dtype"},
      {{"good", "to", "--dtype", "int8"}, 2, "--dtype has an unknown value; got int8, need float32, bfloat16"},
      {{"good", "to", "--max_shard_size", "0"}, 2, "--max_shard_size is no size; got 0"},
      {{"good", "to", "--max_shard_size", "-5GB"}, 2, "--max_shard_size is no size; got -5GB"},
      {{"good", "to", "--max_shard_size", "big"}, 2, "--max_shard_size is no size; got big"},
      {{"good", "to", "--max_shard_size", "5XB"}, 2, "--max_shard_size is no size; got 5XB"},
      {{"good", "to", "--names", "raw"}, 2, "--names has an unknown value; got raw, need hf"},
      {{kGolden + "llama", "to", "--dtype", "bfloat16"}, 2, "--dtype has no meaning for a checkpoint"},
      {{"missing", "to"}, 4, "checkpoint: missing: does not exist"},
      {{"nothing", "to"}, 4, "is neither a checkpoint nor a Hugging Face folder"},
      {{"file", "to"}, 4, "is neither a checkpoint nor a Hugging Face folder"},
      {{"good", "full"}, 4, "checkpoint: full: is there already; need a new or an empty folder"},
      {{"good", "file"}, 4, "checkpoint: file: is there already"},
      {{"good", "file/to"}, 4, "file/to"},
      {{"no-marker", "to"}, 4, "no-marker: not complete (no COMPLETE file)"},
      {{"damaged", "to"}, 4, "tensor 'lm_head.weight' has another checksum: damaged"},
      {{"newer", "to"}, 2, "newer/config.yml:2"},
      {{"other", "to"}, 4, "weights do not fit the model: missing"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> words = {"convert"};
    words.insert(words.end(), one.words.begin(), one.words.end());
    const ProgramResult result = folder.run(words);
    EXPECT_EQ(result.exit_code, one.exit_code) << one.line << ": " << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(one.line), std::string::npos) << one.line << ": " << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  // Nothing was made; stdout.txt and stderr.txt are the test's own and were there before.
  EXPECT_EQ(static_cast<size_t>(std::distance(fs::directory_iterator(folder.path()), {})), num_entries);
}

TEST(Convert, AFullDiskLeavesNothing) {
  const ProgramFolder folder;
  expect_converted(folder, {kGolden + "llama", "good"});
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlim_t before = limit.rlim_cur;
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  limit.rlim_cur = 60'000;  // the weights have 100 kB
  setrlimit(RLIMIT_FSIZE, &limit);
  const ProgramResult to_hf = folder.run({"convert", "good", "to"});
  const ProgramResult to_checkpoint = folder.run({"convert", kGolden + "llama", "to"});
  limit.rlim_cur = before;
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, signal_before);
  for (const ProgramResult& result : {to_hf, to_checkpoint}) {
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_NE(result.err.find("cannot be written (File too large)"), std::string::npos) << result.err;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("to")) << entry.path();
  }
}

// A model that no Hugging Face class computes.
TEST(Convert, RefusesWhatTransformersCannotSay) {
  const ProgramFolder folder;
  ASSERT_EQ(folder.run(tiny_run({"decoder_block=default", "enable_checkpointing=true", "steps=1"})).exit_code, 0);
  const ProgramResult result = folder.run({"convert", "out/t/checkpoints/0", "to"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("decoder_block: no model type of Hugging Face can say this; got default, need llama2"),
            std::string::npos)
      << result.err;
  EXPECT_FALSE(fs::exists(folder.path() / "to"));
}

}  // namespace
}  // namespace ballast::testing
