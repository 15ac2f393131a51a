// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "config/resolve.h"
#include "data/packed_bytes.h"
#include "data/pipeline_fakes.h"
#include "data/prefetch.h"
#include "errors/errors.h"
#include "files/temp_folder.h"
#include "support/scoped_variable.h"

namespace ballast {
namespace {

const std::string kSource = BALLAST_SOURCE_DIR;

using Pairs = std::vector<std::string>;

Config config_of(Pairs pairs, const Pairs& more = {}) {
  pairs.insert(pairs.end(), more.begin(), more.end());
  return config_from_pairs(pairs);
}

class LoaderTest : public testing::Test {
 protected:
  /// Documents of one token each, ids 100, 101, ..., in `num_files` files.
  void write_ids(int num_documents, int num_files) {
    for (int file = 0; file < num_files; ++file) {
      std::string lines;
      for (int i = file; i < num_documents; i += num_files) lines += "{\"ids\":[7," + std::to_string(100 + i) + "]}\n";
      folder_.write("train-" + std::to_string(file) + ".jsonl", lines);
    }
  }
  Pairs id_pairs(int rows, int length) const {
    return {"dataset_type=hf",
            "hf_path=" + folder_.path().string(),
            "tokenize_train_data=false",
            "tokenize_eval_data=false",
            "train_data_columns=[ids]",
            "eval_data_columns=[ids]",
            "vocab_size=1000",
            "eval_interval=1",
            "per_device_batch_size=" + std::to_string(rows),
            "max_target_length=" + std::to_string(length)};
  }

  TempFolder folder_;
};

Pairs kjv_pairs() {
  return {"dataset_type=hf",
          "hf_path=" + kSource + "/examples/data/kjv",
          "tokenizer_path=" + kSource + "/examples/data/kjv/tokenizer.json",
          "vocab_size=4096",
          "per_device_batch_size=4",
          "max_target_length=128",
          "hf_shuffle_buffer_size=50"};
}

TEST_F(LoaderTest, RanksTakeDisjointBlocksOfOneGlobalBatch) {
  write_ids(64, 3);
  const Config config = config_of(id_pairs(16, 2));
  const auto whole = make_train_source(config, {});
  std::vector<std::unique_ptr<BatchSource>> ranks;
  for (int64_t rank = 0; rank < 4; ++rank) ranks.push_back(make_train_source(config, {rank, 4}));
  std::set<int32_t> seen;
  for (int step = 0; step < 4; ++step) {
    const HostBatch global = *whole->next();
    Ids joined;
    for (const auto& rank : ranks) {
      const HostBatch block = *rank->next();
      EXPECT_EQ(block.rows, 4);
      joined.insert(joined.end(), block.inputs.begin(), block.inputs.end());
    }
    EXPECT_EQ(joined, global.inputs);
    for (int64_t row = 0; row < 16; ++row) EXPECT_TRUE(seen.insert(global.inputs[2 * row + 1]).second);
  }
  EXPECT_EQ(seen.size(), 64u);
  EXPECT_EQ(whole->next(), std::nullopt);
}

TEST_F(LoaderTest, TheSeedDecidesTheOrder) {
  write_ids(64, 3);
  const auto order = [&](const Pairs& more) { return drain(*make_train_source(config_of(id_pairs(16, 2), more), {})); };
  EXPECT_EQ(order({}), order({}));
  EXPECT_NE(order({}), order({"data_shuffle_seed=1"}));
  EXPECT_NE(order({}), order({"enable_data_shuffling=false"}));
}

TEST_F(LoaderTest, ATextRunResumesExactlyThroughTheReaderThread) {
  for (int file = 0; file < 3; ++file) {
    std::string lines;
    for (int i = 0; i < 60; ++i) {
      std::string text = "In the beginning " + std::to_string(100 * file + i);
      for (int word = 0; word < (i * 37) % 40; ++word) text += " and it was so";  // some longer than a row
      lines += i % 11 == 3 ? "{\"text\":null}\n" : "{\"text\":\"" + text + "\"}\n";
    }
    folder_.write("train-" + std::to_string(file) + ".jsonl", lines);
  }
  const Config config = config_of(kjv_pairs(), {"hf_path=" + folder_.path().string(), "num_epoch=2",
                                                "use_truncation=false", "hf_shuffle_buffer_size=25"});
  const auto make = [&] { return make_train_source(config, {}); };
  ASSERT_GT(drain(*make()).size(), 2 * static_cast<size_t>(PrefetchSource::kSnapshotPeriod));
  expect_exact_resume(make, SIZE_MAX, 5);
}

TEST_F(LoaderTest, EveryFormatOfLinesResumesExactlyOverEpochs) {
  const auto write_file = [&](int file, const std::string& name, auto&& pack) {
    std::string text;
    for (int i = 0; i < 20; ++i) {
      const std::string row = "And it was so " + std::to_string(100 * file + i);
      text += name.find(".txt") == std::string::npos ? "{\"text\":\"" + row + "\"}\n" : row + "\n";
    }
    folder_.write(name, pack(text));
  };
  const auto as_it_is = [](const std::string& text) { return text; };
  write_file(0, "a/1.jsonl", as_it_is);
  write_file(1, "a/2.jsonl.gz", gzip);
  write_file(2, "a/3.json.zst", zstd);
  write_file(3, "a/4.txt", as_it_is);
  write_file(4, "a/5.txt.gz", gzip);
  const Config config =
      config_of(kjv_pairs(), {"hf_path=" + folder_.path().string(), "hf_train_files=a/*", "num_epoch=3",
                              "per_device_batch_size=2", "max_target_length=32", "hf_shuffle_buffer_size=7"});
  const auto make = [&] { return make_train_source(config, {}); };
  std::map<std::string, int> times_seen;
  const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(config.tokenizer_path);
  const auto source = make();
  while (const std::optional<HostBatch> batch = source->next()) {
    for (size_t i = 0; i < batch->inputs.size(); ++i) {
      size_t end = i;
      while (end < batch->inputs.size() && batch->inputs_segmentation[end] == batch->inputs_segmentation[i] &&
             (end == i || batch->inputs_position[end] > 0)) {
        ++end;
      }
      if (batch->inputs_segmentation[i] != 0) {
        ++times_seen[tokenizer->decode({batch->inputs.data() + i, end - i}, /*skip_special_tokens=*/true)];
      }
      i = end - 1;
    }
  }
  EXPECT_EQ(times_seen.size(), 100u);
  int num_seen = 0;
  for (const auto& [text, times] : times_seen) {
    EXPECT_LE(times, 3) << text;
    num_seen += times;
  }
  EXPECT_GT(num_seen, 300 - 20);  // the last batch was not full
  expect_exact_resume(make, SIZE_MAX, 9);
}

// The layout of allenai/c4 as huggingface_hub caches it: links into the blobs, splits inside the file names.
TEST_F(LoaderTest, ReadsC4FromTheHuggingFaceCache) {
  const std::string repository = "datasets--allenai--c4/";
  const std::string snapshot = repository + "snapshots/1588ec454efa1a09f29cd18ddd04fe05fc8653a2/";
  const auto add = [&](const std::string& name, const std::string& text) {
    const std::string blob = "blobs/" + std::to_string(std::hash<std::string>()(name));
    folder_.write(repository + blob, gzip("{\"text\":\"" + text + "\",\"timestamp\":\"2019\",\"url\":\"u\"}\n"));
    std::filesystem::create_directories((folder_ / (snapshot + name)).parent_path());
    std::filesystem::create_symlink("../../../" + blob, folder_ / (snapshot + name));
  };
  folder_.write(repository + "refs/main", "1588ec454efa1a09f29cd18ddd04fe05fc8653a2");
  add("en/c4-train.00000-of-01024.json.gz", "first");
  add("en/c4-train.00001-of-01024.json.gz", "second");
  add("en/c4-validation.00000-of-00008.json.gz", "held back");
  add("realnewslike/c4-train.00000-of-00512.json.gz", "news");
  const ScopedVariable cache("HF_HUB_CACHE", folder_.path().c_str());
  const Config config = config_of(kjv_pairs(), {"hf_path=allenai/c4", "hf_name=en", "per_device_batch_size=2",
                                                "packing=false", "enable_data_shuffling=false", "eval_interval=1",
                                                "hf_eval_split=validation", "per_device_batch_size=2"});
  const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(config.tokenizer_path);
  const auto row_text = [&](const HostBatch& batch, int64_t row) {
    return tokenizer->decode({batch.inputs.data() + row * batch.length, static_cast<size_t>(batch.length)}, true);
  };
  const HostBatch train = *make_train_source(config, {})->next();
  EXPECT_TRUE(row_text(train, 0).starts_with("first"));
  EXPECT_TRUE(row_text(train, 1).starts_with("second"));
  EXPECT_TRUE(row_text(*make_eval_source(config, {})->next(), 0).starts_with("held back"));
}

TEST_F(LoaderTest, EveryTextBatchKeepsTheContract) {
  const Config config = config_of(kjv_pairs());
  const auto source = make_train_source(config, {});
  for (int step = 0; step < 20; ++step) {
    const HostBatch batch = *source->next();
    batch.check(config.vocab_size, "step");
    for (int64_t i = 0; i < batch.rows * batch.length; ++i) {
      const bool row_ends = i % batch.length == batch.length - 1;
      const int32_t next_segment = row_ends ? 0 : batch.inputs_segmentation[i + 1];
      const bool same = next_segment != 0 && next_segment == batch.inputs_segmentation[i];
      ASSERT_EQ(batch.targets_segmentation[i] != 0, same);
      if (same) {
        ASSERT_EQ(batch.targets[i], batch.inputs[i + 1]);
        ASSERT_EQ(batch.inputs_position[i + 1], batch.inputs_position[i] + 1);
      }
    }
  }
}

TEST_F(LoaderTest, EvaluationSeesEveryDocumentOnceAndRestarts) {
  write_ids(10, 1);
  std::filesystem::rename(folder_ / "train-0.jsonl", folder_ / "validation.jsonl");
  write_ids(1, 1);
  const auto source = make_eval_source(config_of(id_pairs(4, 2), {"eval_split=validation", "num_epoch=3"}), {});
  for (int pass = 0; pass < 2; ++pass) {
    Ids seen;
    while (const std::optional<HostBatch> batch = source->next()) {
      EXPECT_EQ(batch->rows, 4);
      for (int64_t i = 0; i < 8; ++i) {
        if (batch->targets_segmentation[i] != 0) seen.push_back(batch->targets[i]);
      }
    }
    EXPECT_EQ(seen, (Ids{100, 101, 102, 103, 104, 105, 106, 107, 108, 109})) << "pass " << pass;
    source->reset();
  }
}

TEST_F(LoaderTest, EvaluationExistsOnlyWhenAskedFor) {
  EXPECT_EQ(make_eval_source(config_of({"dataset_type=synthetic", "eval_interval=-1"}), {}), nullptr);
  EXPECT_NE(make_eval_source(config_of({"dataset_type=synthetic", "eval_interval=2", "eval_steps=1"}), {}), nullptr);
}

TEST_F(LoaderTest, WithoutPackingEachRowHoldsOneDocument) {
  write_ids(8, 1);
  const auto source = make_train_source(config_of(id_pairs(8, 4), {"packing=false"}), {});
  const HostBatch batch = *source->next();
  for (int64_t row = 0; row < 8; ++row) {
    EXPECT_EQ(Ids(batch.inputs_segmentation.begin() + 4 * row, batch.inputs_segmentation.begin() + 4 * row + 4),
              (Ids{1, 1, 0, 0}));
  }
}

TEST_F(LoaderTest, SyntheticSplitsOverRanks) {
  const Config config = config_of({"dataset_type=synthetic", "per_device_batch_size=4", "max_target_length=8"});
  const HostBatch whole = *make_train_source(config, {})->next();
  const HostBatch last = *make_train_source(config, {1, 2})->next();
  EXPECT_EQ(last.inputs, Ids(whole.inputs.begin() + 16, whole.inputs.end()));
}

TEST_F(LoaderTest, BadInputGivesOneClearLine) {
  write_ids(8, 1);
  const auto data_fault = [&](const Pairs& more) {
    return error_line<DataError>([&] { make_train_source(config_of(id_pairs(4, 4), more), {})->next(); });
  };
  const auto config_fault = [&](const Pairs& more) {
    return error_line<ConfigError>([&] { make_train_source(config_of(id_pairs(4, 4), more), {}); });
  };
  EXPECT_NE(data_fault({"train_data_columns=[text]"}).find("has no column 'text'; need one of: ids"),
            std::string::npos);
  EXPECT_NE(data_fault({"vocab_size=104", "enable_data_shuffling=false"}).find("row 4 position 1: token id 104"),
            std::string::npos);
  EXPECT_NE(data_fault({"train_split=other"}).find("has no file for split 'other'"), std::string::npos);
  EXPECT_NE(data_fault({"per_device_batch_size=64"}).find("does not fill one batch"), std::string::npos);
  EXPECT_NE(config_fault({"train_data_columns=[ids,text]"}).find("names 2 columns"), std::string::npos);
  const std::string line = config_fault({"tokenize_train_data=true"});
  EXPECT_NE(line.find("tokenizer_path"), std::string::npos) << line;
  folder_.write("train-0.jsonl", "");
  EXPECT_NE(data_fault({}).find("split 'train': holds no documents"), std::string::npos);
}

}  // namespace
}  // namespace ballast
