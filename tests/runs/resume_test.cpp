// SPDX-License-Identifier: Apache-2.0
// A run that was stopped and continued is bit-equal to one that was not.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <random>
#include <set>

#include "files/safetensors.h"
#include "support/program.h"

namespace ballast::testing {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

/// tiny_run with checkpoints, dropout and a schedule of 40 steps. Later words win.
Words run_of(const std::string& name, const Words& more) {
  Words words =
      tiny_run({"run_name=" + name, "enable_checkpointing=true", "learning_rate_schedule_steps=40", "dropout_rate=0.1",
                "checkpoint_period=1000", "save_checkpoint_on_start=false", "log_period=7"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The records without what a clock says, as lines.
Words learning_lines(const fs::path& run) {
  Words lines;
  std::ifstream stream(run / "metrics.jsonl");
  for (std::string line; std::getline(stream, line);) {
    nlohmann::json record = nlohmann::json::parse(line);
    record.erase("run_name");
    for (auto item = record.begin(); item != record.end();) {
      item = item.key().starts_with("perf/") ? record.erase(item) : std::next(item);
    }
    lines.push_back(record.dump());
  }
  return lines;
}

void expect_equal_runs(const fs::path& straight, const fs::path& resumed, int64_t last_step) {
  EXPECT_EQ(learning_lines(resumed), learning_lines(straight));
  const std::string step = std::to_string(last_step);
  for (const char* name : {"model-r00000.safetensors", "optimizer-r00000.safetensors", "state.json", "data.json"}) {
    const std::string text = read_text(straight / "checkpoints" / step / name);
    EXPECT_FALSE(text.empty()) << name;
    EXPECT_EQ(read_text(resumed / "checkpoints" / step / name), text) << name;
  }
}

/// JSON lines of token ids: documents of 3 to 60 tokens of the vocabulary of 128.
std::string id_documents(int count) {
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < count; ++i) {
    nlohmann::json ids = nlohmann::json::array();
    for (int length = 3 + static_cast<int>(random() % 58); length > 0; --length) ids.push_back(random() % 128);
    text += nlohmann::json{{"text", ids}}.dump() + "\n";
  }
  return text;
}

/// 40 steps of 4 rows with 33 ids each.
void write_recorded(const fs::path& path) {
  std::mt19937 random(3);
  std::vector<int32_t> ids(40 * 4 * 33);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 128);
  write_safetensors(path, {{{"batches", StoredType::kI32, {40, 4, 33}}, std::as_bytes(std::span(ids))}});
}

/// Packed rows from a shuffled stream of several epochs, two micro-batches a step.
Words packed_data() {
  return {"dataset_type=hf",
          "hf_path=docs",
          "tokenize_train_data=false",
          "tokenize_eval_data=false",
          "num_epoch=50",
          "hf_shuffle_buffer_size=16",
          "gradient_accumulation_steps=2",
          "eval_interval=4",
          "hf_eval_split=validation"};
}

void write_documents(const ProgramFolder& folder) {
  fs::create_directories(folder.path() / "docs");
  folder.file("docs/train.jsonl", id_documents(60));
  folder.file("docs/validation.jsonl", id_documents(6));
}

struct ResumeCase {
  const char* name;
  Words words;
};

class Resume : public ::testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, TwoHalvesEqualTheWhole) {
  const ProgramFolder folder;
  write_documents(folder);
  write_recorded(folder.path() / "recorded.safetensors");
  const Words& words = GetParam().words;
  ASSERT_EQ(folder.run(run_of("straight", joined(words, {"steps=40"}))).exit_code, 0);
  ASSERT_EQ(folder.run(run_of("halves", joined(words, {"steps=20"}))).exit_code, 0);
  const ProgramResult second = folder.run(run_of("halves", joined(words, {"steps=40"})));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_NE(second.err.find("out/halves/checkpoints/19: goes on with step 20"), std::string::npos) << second.err;
  expect_equal_runs(folder.path() / "out/straight", folder.path() / "out/halves", 39);
  const auto load_of = [&](const char* run) {
    const auto path = folder.path() / "out" / run / "expert_load.jsonl";
    return std::filesystem::exists(path) ? read_text(path) : std::string();
  };
  EXPECT_EQ(load_of("halves"), load_of("straight"));
}

INSTANTIATE_TEST_SUITE_P(
    Runs, Resume,
    ::testing::Values(
        ResumeCase{"Synthetic", {}},
        ResumeCase{"Recorded",
                   {"dataset_type=recorded", "recorded_batches_path=recorded.safetensors",
                    "gradient_accumulation_steps=2", "opt_type=muon"}},
        ResumeCase{"PackedEpochs", packed_data()},
        ResumeCase{"Rampup",
                   {"dataset_type=hf", "hf_path=docs", "tokenize_train_data=false", "num_epoch=50",
                    "enable_rampup_batch_size=true", "per_device_batch_size=4", "per_device_batch_size_start=1",
                    "per_device_batch_size_increment=1", "global_rampup_samples=60"}},
        ResumeCase{"SpikesAndHalfMoments",
                   {"skip_step_on_spikes=true", "skip_step_interval=8", "skip_step_scaling_factor=0.5",
                    "mu_dtype=bfloat16", "dtype=bfloat16", "gcs_metrics=true"}},
        ResumeCase{"ExpertsAndModules",
                   {"num_experts=4", "num_experts_per_tok=2", "base_moe_mlp_dim=16", "routed_score_func=sigmoid",
                    "routed_bias=true", "routed_bias_update_rate=0.01", "load_balance_loss_weight=0.01",
                    "mtp_num_layers=1", "gradient_accumulation_steps=2", "expert_load_period=3"}}),
    [](const auto& info) { return info.param.name; });

/// Bit equality after SIGKILL at random moments: saves, evaluations and start-up are all hit.
TEST(Kill, AtAnyMomentLosesNothing) {
  const ProgramFolder folder;
  write_documents(folder);
  const Words words = joined(packed_data(), {"steps=40", "checkpoint_period=3", "max_num_checkpoints_to_keep=2"});
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(folder.run(run_of("straight", words)).exit_code, 0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::mt19937 random(std::random_device{}());
  std::uniform_real_distribution<double> moment(0.0, 1.2 * seconds);
  const auto deadline = start + std::chrono::seconds(60);
  int num_kills = 0;
  std::string log;
  for (int number = 0; num_kills < 30 && std::chrono::steady_clock::now() < deadline; ++number) {
    const std::string name = "killed" + std::to_string(number);
    for (int tries = 0;; ++tries) {
      ASSERT_LT(tries, 40) << "the run makes no progress\n" << log;
      const pid_t child = folder.start(run_of(name, words));
      std::this_thread::sleep_for(std::chrono::duration<double>(moment(random)));
      num_kills += ::kill(child, SIGKILL) == 0 ? 1 : 0;
      const ProgramResult result = folder.wait_for(child);
      log = result.err;
      // A run that finished before the kill says so when it is started again.
      if (result.exit_code == 0 || log.find("has finished them all") != std::string::npos) break;
      ASSERT_TRUE(result.exit_code == 1000 + SIGKILL) << result.exit_code << "\n" << result.err;
    }
    expect_equal_runs(folder.path() / "out/straight", folder.path() / "out" / name, 39);
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path() / "out" / name / "checkpoints")) {
      EXPECT_EQ(entry.path().filename().string().find(".damaged"), std::string::npos) << entry.path();
    }
    if (HasFailure()) {
      ADD_FAILURE() << log;
      return;
    }
  }
  RecordProperty("kills", num_kills);
  EXPECT_GT(num_kills, 4);
}

TEST(StopSignal, SavesAndGoesOn) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const ProgramFolder folder;
    const Words words = {"steps=2000", "learning_rate_schedule_steps=2000", "checkpoint_period=100000"};
    const pid_t child = folder.start(run_of("t", words));
    while (read_text(folder.path() / "stdout.txt").find("completed step: 5,") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(child, signal);
    const ProgramResult result = folder.wait_for(child);
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    EXPECT_NE(result.err.find("stopped by signal " + std::to_string(signal) + " after step "), std::string::npos)
        << result.err;
    const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
    const int64_t last_step = records.back().at("step");
    EXPECT_TRUE(fs::exists(folder.path() / "out/t/checkpoints" / std::to_string(last_step) / "COMPLETE"));
    const ProgramResult more = folder.run(
        run_of("t", joined(words, {"steps=" + std::to_string(last_step + 2), "save_checkpoint_on_completion=false"})));
    EXPECT_EQ(more.exit_code, 0) << more.err;
    EXPECT_EQ(read_records(folder.path() / "out/t/metrics.jsonl", "train").back().at("step"), last_step + 1);
  }
}

/// The names in a run's checkpoints folder.
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// bug cases V59, V60: the last step is saved once, and "newest" is a number.
TEST(Checkpoints, AreWrittenWhenTheyAreDueAndPrunedByNumber) {
  const ProgramFolder folder;
  const fs::path root = folder.path() / "out/t/checkpoints";
  ASSERT_EQ(folder.run(run_of("t", {"steps=7", "checkpoint_period=5", "save_checkpoint_on_start=true"})).exit_code, 0);
  EXPECT_EQ(names_in(root), (std::set<std::string>{"0", "5", "6"}));
  ASSERT_EQ(folder.run(run_of("t", {"steps=11", "checkpoint_period=5"})).exit_code, 0);
  EXPECT_EQ(names_in(root), (std::set<std::string>{"0", "5", "6", "10"}));
  const ProgramResult more = folder.run(
      run_of("t", {"steps=13", "checkpoint_period=1", "max_num_checkpoints_to_keep=2", "async_checkpointing=false"}));
  EXPECT_NE(more.err.find("checkpoints/10: goes on with step 11"), std::string::npos) << more.err;
  EXPECT_EQ(names_in(root), (std::set<std::string>{"11", "12"}));
  ASSERT_EQ(folder.run(run_of("u", {"steps=4", "enable_continuous_checkpointing=true"})).exit_code, 0);
  EXPECT_TRUE(fs::exists(folder.path() / "out/u/checkpoints/0/COMPLETE"));
  ASSERT_EQ(folder.run(run_of("v", {"steps=4", "enable_checkpointing=false"})).exit_code, 0);
  EXPECT_FALSE(fs::exists(folder.path() / "out/v/checkpoints"));
}

/// A run with checkpoints of steps 3 and 5, and what a broken one leads to.
class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    const Words words = {"steps=6", "checkpoint_period=3"};
    ASSERT_EQ(folder_.run(run_of("t", words)).exit_code, 0);
  }
  fs::path root() const { return folder_.path() / "out/t/checkpoints"; }
  ProgramResult resume(const Words& more = {}) const {
    return folder_.run(run_of("t", joined({"steps=8", "save_checkpoint_on_completion=false"}, more)));
  }
  void flip_bit(const fs::path& path) const {
    std::string text = read_text(path);
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 4);
    std::ofstream(path, std::ios::binary) << text;
  }

  ProgramFolder folder_;
};

TEST_F(Damage, OfTheNewestFallsBackToTheOneBefore) {
  const std::map<std::string, std::string> names = {{"model-r00000.safetensors", "has another checksum"},
                                                    {"optimizer-r00000.safetensors", "has another checksum"},
                                                    {"state.json", "has another checksum"},
                                                    {"data.json", "has another checksum"},
                                                    {"config.yml", "has another checksum"},
                                                    {"manifest.json", "has another checksum"},
                                                    {"COMPLETE", "has another checksum"}};
  for (const auto& [name, what] : names) {
    const std::string good = read_text(root() / "5" / name);
    flip_bit(root() / "5" / name);
    const ProgramResult result = resume();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.err.find("warning: checkpoint: out/t/checkpoints/5"), std::string::npos) << name << result.err;
    EXPECT_NE(result.err.find(what), std::string::npos) << name << result.err;
    EXPECT_NE(result.err.find("; using 3"), std::string::npos) << name << result.err;
    EXPECT_NE(result.err.find("goes on with step 4"), std::string::npos) << name << result.err;
    std::ofstream(root() / "5" / name, std::ios::binary) << good;
  }
  fs::resize_file(root() / "5/model-r00000.safetensors", 5000);
  EXPECT_NE(resume().err.find("model-r00000.safetensors: is cut off; got 5000 bytes"), std::string::npos);
  fs::remove(root() / "5/COMPLETE");
  EXPECT_NE(resume().err.find("out/t/checkpoints/5: not complete (no COMPLETE file); using 3"), std::string::npos);
}

TEST_F(Damage, IsSetAsideWhenTheStepComesAgain) {
  fs::remove(root() / "5/COMPLETE");
  const ProgramResult result = folder_.run(run_of("t", {"steps=6"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(names_in(root()), (std::set<std::string>{"3", "5", "5.damaged"}));
}

TEST_F(Damage, OfAllOfThemEndsTheRun) {
  fs::remove(root() / "5/COMPLETE");
  flip_bit(root() / "3/model-r00000.safetensors");
  const ProgramResult result = resume();
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.err.find("error: checkpoint: out/t/checkpoints: no checkpoint of this run can be used"),
            std::string::npos)
      << result.err;
}

TEST_F(Damage, IsNotWhatAChangedRunIsCalled) {
  struct Change {
    const char* word;
    int exit_code;
    const char* line;
  };
  for (const Change& change : {
           Change{"base_mlp_dim=96", 4, "weights do not fit the model: other shape 6: "},
           Change{"base_num_decoder_layers=3", 4, "weights do not fit the model: missing 9: model.layers.2."},
           Change{"opt_type=adam_pax", 4, "was written with another opt_type; got 'adam_pax', need 'adamw'"},
           Change{"mu_dtype=bfloat16", 4, "was written with another mu_dtype"},
           Change{"steps=6", 2, "steps: checkpoint out/t/checkpoints/5 has finished them all"},
           Change{"dataset_type=recorded", 2, "recorded_batches_path"},
       }) {
    const ProgramResult result = resume({change.word});
    EXPECT_EQ(result.exit_code, change.exit_code) << change.word << "\n" << result.err;
    EXPECT_NE(result.err.find(change.line), std::string::npos) << change.word << "\n" << result.err;
    EXPECT_EQ(result.err.find("using 3"), std::string::npos) << change.word << "\n" << result.err;
  }
  const ProgramResult longer = resume({"learning_rate_schedule_steps=50"});
  EXPECT_EQ(longer.exit_code, 0);
  EXPECT_NE(longer.err.find("the schedule has 50 steps now and had 40"), std::string::npos) << longer.err;
}

// bug case V63, and a position of another kind of data.
TEST(Checkpoints, KnowTheirData) {
  const ProgramFolder folder;
  write_documents(folder);
  const Words words = {"dataset_type=hf", "hf_path=docs", "tokenize_train_data=false", "num_epoch=9"};
  ASSERT_EQ(folder.run(run_of("t", joined(words, {"steps=3"}))).exit_code, 0);
  folder.file("docs/train.jsonl", id_documents(61));
  const ProgramResult changed = folder.run(run_of("t", joined(words, {"steps=5"})));
  EXPECT_EQ(changed.exit_code, 3);
  EXPECT_NE(changed.err.find("the files have changed since the position was saved"), std::string::npos) << changed.err;
  EXPECT_NE(changed.err.find("restart_data_on_resume=true"), std::string::npos) << changed.err;
  const ProgramResult other = folder.run(run_of("t", {"steps=5"}));
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_NE(other.err.find("belongs to other data; got synthetic, need hf"), std::string::npos) << other.err;
  const ProgramResult again = folder.run(run_of("t", joined(words, {"steps=5", "restart_data_on_resume=true"})));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("data: begins again at the first batch"), std::string::npos) << again.err;
}

TEST(Checkpoints, GiveWeightsOrTheFullStateToAnotherRun) {
  const ProgramFolder folder;
  ASSERT_EQ(folder.run(run_of("a", {"steps=5"})).exit_code, 0);
  const ProgramResult full = folder.run(run_of("full", {"steps=6", "load_full_state_path=out/a/checkpoints/4"}));
  ASSERT_EQ(full.exit_code, 0) << full.err;
  ASSERT_EQ(folder.run(run_of("a", {"steps=6"})).exit_code, 0);
  const auto rest = read_records(folder.path() / "out/full/metrics.jsonl", "train");
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].at("learning/raw_grad_norm"),
            read_records(folder.path() / "out/a/metrics.jsonl", "train")[5].at("learning/raw_grad_norm"));
  // Weights alone: step 0 with a fresh optimizer, from the loss that the old run ended with. MaxText's commands name
  // the folder `items` inside a checkpoint.
  const ProgramResult weights =
      folder.run(run_of("weights", {"steps=1", "dropout_rate=0", "load_parameters_path=out/a/checkpoints/4/items"}));
  ASSERT_EQ(weights.exit_code, 0) << weights.err;
  const ProgramResult eval = folder.run(joined(run_of("a", {"eval_steps=1"}), {"dropout_rate=0"}));
  EXPECT_EQ(eval.exit_code, 2) << "all steps are done";
  // The configuration inside a checkpoint is a whole one.
  const ProgramResult again = folder.run({"train", "out/a/checkpoints/5/config.yml", "steps=7"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("goes on with step 6"), std::string::npos) << again.err;
  EXPECT_EQ(again.err.find("warning"), std::string::npos) << again.err;
}

TEST(Checkpoints, EvalTakesTheNewest) {
  const ProgramFolder folder;
  ASSERT_EQ(folder.run(run_of("a", {"steps=5", "eval_interval=4", "eval_steps=1"})).exit_code, 0);
  const auto trained = read_records(folder.path() / "out/a/metrics.jsonl", "eval");
  ASSERT_EQ(trained.size(), 2U);
  Words words = run_of("a", {"steps=5", "eval_steps=1"});
  words[0] = "eval";
  const ProgramResult eval = folder.run(words);
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const auto evals = read_records(folder.path() / "out/a/metrics.jsonl", "eval");
  ASSERT_EQ(evals.size(), 3U);
  EXPECT_EQ(evals[2].at("step"), 4);
  EXPECT_EQ(evals[2].at("eval/avg_loss"), evals[1].at("eval/avg_loss"));
}

TEST(Checkpoints, TwoProgramsDoNotShareARun) {
  const ProgramFolder folder, other;
  const Words words = run_of("t", {"steps=100000", "base_output_directory=" + (folder.path() / "out").string()});
  const pid_t child = folder.start(words);
  while (read_text(folder.path() / "stdout.txt").find("completed step: 0,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const ProgramResult second = other.run(words);
  EXPECT_EQ(second.exit_code, 4);
  EXPECT_NE(second.err.find("another program trains into this folder"), std::string::npos) << second.err;
  ::kill(child, SIGKILL);
  folder.wait_for(child);
}

// bug case V58. The shell's limit on file size stands for a full disk: the write fails in the same call.
TEST(Checkpoints, AFailedSaveEndsTheRunAndKeepsTheOthers) {
  const ProgramFolder folder;
  ASSERT_EQ(folder.run(run_of("t", {"steps=3"})).exit_code, 0);
  const ProgramResult result = folder.run_limited(run_of("t", {"steps=40", "checkpoint_period=5"}), 100000);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(result.err.find("error: checkpoint: out/t/checkpoints/5.tmp-"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("cannot be written"), std::string::npos) << result.err;
  EXPECT_EQ(names_in(folder.path() / "out/t/checkpoints"), (std::set<std::string>{"2"}));
}

}  // namespace
}  // namespace ballast::testing
