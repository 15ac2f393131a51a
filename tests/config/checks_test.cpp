// SPDX-License-Identifier: Apache-2.0
// Values that contradict one another.
#include "config/checks.h"

#include <gtest/gtest.h>

#include "config/resolve.h"
#include "files.h"

namespace ballast {
namespace {

Config for_a_run(const std::vector<std::string>& pairs) {
  return config_from_pairs(pairs, ConfigOptions());
}

std::string refusal(const std::vector<std::string>& pairs) {
  return config_error([&] { for_a_run(pairs); });
}

TEST(CheckTogether, WarmupAndDecayFitInTheSchedule) {
  EXPECT_EQ(refusal({"dataset_type=synthetic", "lr_schedule_type=wsd", "warmup_steps_fraction=0.6",
                     "wsd_decay_steps_fraction=0.5"}),
            "config: warmup_steps_fraction=0.6 (command line), wsd_decay_steps_fraction=0.5 (command line): their sum "
            "is more than 1; try smaller fractions");
  EXPECT_EQ(for_a_run({"dataset_type=synthetic", "lr_schedule_type=cosine", "warmup_steps_fraction=1",
                       "wsd_decay_steps_fraction=0.5"})
                .warmup_steps_fraction,
            1.0);
}

TEST(CheckTogether, ARunNeedsADataSet) {
  EXPECT_EQ(refusal({}),
            "config: dataset_type=tfds (default): not supported: TensorFlow data sets are not read; export them to "
            "Parquet or JSON lines and use dataset_type=hf; try dataset_type=synthetic, hf or recorded");
  EXPECT_EQ(refusal({"dataset_type=hf"}),
            "config: dataset_type=hf (command line), hf_path='' (default): no data set to read; try hf_path=FOLDER or "
            "hf_train_files=FILES");
  EXPECT_EQ(refusal({"dataset_type=recorded"}),
            "config: dataset_type=recorded (command line), recorded_batches_path='' (default): no file to read; try "
            "recorded_batches_path=FILE");
  EXPECT_EQ(refusal({"dataset_type=hf", "hf_path=x"}),
            "config: dataset_type=hf (command line), tokenizer_path='' (default): text needs a tokenizer; try "
            "tokenizer_path=FILE");
  EXPECT_EQ(for_a_run({"dataset_type=hf", "hf_path=x", "tokenize_train_data=false"}).hf_path, "x");
}

TEST(CheckTogether, EvaluationOnSyntheticDataNeedsAnEnd) {
  EXPECT_EQ(refusal({"dataset_type=synthetic", "eval_interval=5"}),
            "config: dataset_type=synthetic (command line), eval_interval=5 (command line), eval_steps=-1 (default): "
            "synthetic batches never end; try eval_steps=10");
  EXPECT_EQ(for_a_run({"dataset_type=hf", "hf_path=x", "tokenizer_path=t", "eval_interval=5"}).eval_steps, -1);
  EXPECT_EQ(for_a_run({"dataset_type=synthetic", "eval_interval=5", "eval_steps=2"}).eval_steps, 2);
}

TEST(CheckTogether, EvaluationWithPaddingBatchesNeedsAnEnd) {
  EXPECT_EQ(refusal({"dataset_type=recorded", "recorded_batches_path=f", "generate_padding_batch_eval=true",
                     "eval_interval=5"}),
            "config: generate_padding_batch_eval=true (command line), eval_steps=-1 (default): padding batches never "
            "end; try eval_steps=10");
}

TEST(CheckTogether, NothingOfThatWithoutARun) {
  EXPECT_EQ(config_from_pairs({}).dataset_type, "tfds");
}

TEST(CheckTogether, KeysThatTheOptimizerDoesNotReadAreNamed) {
  ::testing::internal::CaptureStderr();
  for_a_run({"dataset_type=synthetic", "opt_type=sgd", "adam_b1=0.8", "muon_beta=0.9", "adam_b2=0.95"});
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("adam_b1 has no effect with opt_type=sgd"), std::string::npos) << lines;
  EXPECT_NE(lines.find("muon_beta has no effect with opt_type=sgd"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("adam_b2"), std::string::npos) << lines;
  ::testing::internal::CaptureStderr();
  for_a_run({"dataset_type=synthetic", "opt_type=muon", "adam_b1=0.8", "muon_beta=0.9"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("has no effect"), std::string::npos);
}

TEST(AcceptedValues, AreNamedInWords) {
  EXPECT_EQ(accepted_values(*find_key("steps")), "at least 1 or -1");
  EXPECT_EQ(accepted_values(*find_key("opt_type")), "adamw, adam_pax, sgd or muon");
  EXPECT_EQ(accepted_values(*find_key("run_name")), "");
}

}  // namespace
}  // namespace ballast
