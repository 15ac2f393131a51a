// SPDX-License-Identifier: Apache-2.0
// Wrong input from the command line: one clear line, the right exit code, nothing half-written.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "files/safetensors.h"
#include "support/program.h"

namespace ballast::testing {
namespace {

struct BadInput {
  std::string name;
  std::vector<std::string> arguments;
  int exit_code;
  std::vector<std::string> parts;  ///< what the line must hold
  bool is_seen_late = false;       ///< only a step shows it: the run's folder exists by then
};

const std::string kGolden = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/llama";
const std::string kKingJames = std::string(BALLAST_SOURCE_DIR) + "/examples/data/kjv";

/// tiny_run on the text of a folder.
std::vector<std::string> text_run(const std::string& folder, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"dataset_type=hf", "hf_path=" + folder, "vocab_size=4096",
                             "tokenizer_path=" + kKingJames + "/tokenizer.json"});
  return tiny_run(more);
}

/// tiny_run on the token ids of a folder, with a vocabulary of 128.
std::vector<std::string> id_run(const std::string& folder) {
  return tiny_run({"dataset_type=hf", "hf_path=" + folder, "tokenize_train_data=false"});
}

std::vector<std::string> recorded_run(const std::string& file) {
  return tiny_run({"dataset_type=recorded", "recorded_batches_path=" + file});
}

std::vector<std::string> probe_run(const std::string& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"probe", folder, "--tokens", kGolden + "/io.safetensors", "--out", "o.safetensors"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<BadInput> bad_inputs() {
  const std::string tokenizer = "tokenizer_path=" + kKingJames + "/tokenizer.json";
  return {
      {"UnknownCommand", {"trian"}, 2, {"trian", "train"}},
      {"NoArguments", {}, 2, {}},
      {"UnknownKey", tiny_run({"learnin_rate=1e-4"}), 2, {"learnin_rate", "learning_rate"}},
      {"UnknownKeyInFile", {"train", "unknown.yml"}, 2, {"unknown.yml:2", "stepz", "steps"}},
      {"MissingFile", {"train", "absent.yml"}, 2, {"absent.yml"}},
      {"BrokenYaml", {"train", "broken.yml"}, 2, {"broken.yml:"}},
      {"WordForANumber", tiny_run({"steps=many"}), 2, {"steps", "many"}},
      {"FractionForAnInteger", tiny_run({"vocab_size=12.5"}), 2, {"vocab_size", "12.5"}},
      {"NegativeSteps", tiny_run({"steps=-5"}), 2, {"steps", "-5"}},
      {"UnknownDataset", tiny_run({"dataset_type=webdataset"}), 2, {"dataset_type", "webdataset"}},
      {"UnknownModel", tiny_run({"model_name=llama9-1b"}), 2, {"llama9-1b"}},
      {"HeadsThatDoNotDivide", tiny_run({"base_num_query_heads=3"}), 2, {"3", "2"}},
      {"KeyOfALaterVersion", tiny_run({"use_indexer=true"}), 2, {"use_indexer"}},
      {"HfWithoutPath", tiny_run({"dataset_type=hf"}), 2, {"hf_path"}},
      {"EndlessEvaluation", tiny_run({"eval_interval=2", "eval_steps=-1"}), 2, {"eval_steps"}},
      {"WordWithoutValue", tiny_run({"steps"}), 2, {"steps"}},
      {"DataFolderMissing", tiny_run({"dataset_type=hf", "hf_path=no_such_folder", tokenizer}), 3, {"no_such_folder"}},
      {"DataFolderEmpty", tiny_run({"dataset_type=hf", "hf_path=empty", "vocab_size=4096", tokenizer}), 3, {"empty"}},
      {"TextWithoutTokenizer", tiny_run({"dataset_type=hf", "hf_path=text"}), 2, {"tokenizer_path"}},
      {"TokenizerLargerThanTheModel", tiny_run({"dataset_type=hf", "hf_path=text", tokenizer}), 3, {"4096", "128"}},
      {"WrongColumn",
       tiny_run({"dataset_type=hf", "hf_path=text", "vocab_size=4096", "train_data_columns=body", tokenizer}),
       3,
       {"body", "text"}},
      {"BrokenTokenizer",
       tiny_run({"dataset_type=hf", "hf_path=text", "tokenizer_type=huggingface", "tokenizer_path=broken.json"}),
       3,
       {"broken.json"}},
      {"RecordedFileMissing",
       tiny_run({"dataset_type=recorded", "recorded_batches_path=none.safetensors"}),
       3,
       {"none.safetensors"}},
      {"RecordedFileCut",
       tiny_run({"dataset_type=recorded", "recorded_batches_path=cut.safetensors"}),
       3,
       {"cut.safetensors"}},
      {"ModelFolderMissing", tiny_run({"hf_model_path=no_model"}), 2, {"no_model"}},
      {"ModelFolderWithoutWeights", tiny_run({"hf_model_path=no_weights"}), 2, {}},
      {"ProbeWithoutTokens", {"probe", kGolden}, 2, {"--tokens"}},
      {"ProbeTokensMissing",
       {"probe", kGolden, "--tokens", "none.safetensors", "--out", "o.safetensors"},
       3,
       {"none.safetensors"}},
      {"InspectMissing", {"inspect", "nothing.safetensors"}, 3, {"nothing.safetensors"}},

      // Configuration
      {"KeyTwiceInFile", {"train", "twice.yml"}, 2, {"twice.yml:2", "steps", "twice.yml:1"}},
      {"BasesInACircle", {"train", "circle_a.yml"}, 2, {"circle_b.yml:1", "circle_a.yml ->"}},
      {"BaseMissing", {"train", "base_missing.yml"}, 2, {"base_missing.yml:1", "base_config", "gone.yml"}},
      {"ListForAMap", {"train", "list.yml"}, 2, {"list.yml:1", "map"}},
      {"BrokenPattern", tiny_run({"adamw_mask=['([']"}), 2, {"adamw_mask", "([", "offset 2"}},
      {"RunNameThatLeavesItsFolder", tiny_run({"run_name=.."}), 2, {"run_name=..", "command line"}},
      {"TwoKeysThatDisagree",
       tiny_run({"lr_schedule_type=wsd", "warmup_steps_fraction=0.6", "wsd_decay_steps_fraction=0.6"}),
       2,
       {"warmup_steps_fraction=0.6", "wsd_decay_steps_fraction=0.6", "more than 1"}},
      {"UnknownChoice", tiny_run({"dtype=float8"}), 2, {"dtype", "float8", "bfloat16"}},

      // Numbers
      {"IntegerBeyond64Bits", tiny_run({"steps=99999999999999999999"}), 2, {"steps", "99999999999999999999", "64"}},
      {"NotANumber", tiny_run({"learning_rate=nan"}), 2, {"learning_rate", "nan", "finite"}},
      {"FractionAboveOne", tiny_run({"warmup_steps_fraction=1.5"}), 2, {"warmup_steps_fraction", "1.5", "at most 1"}},
      {"DecayOfOne", tiny_run({"adam_b1=1"}), 2, {"adam_b1", "less than 1"}},
      {"DivergingRun", tiny_run({"learning_rate=1e30"}), 1, {"train.step 1", "not finite", "learning_rate"}, true},

      // Shapes
      {"OddHead", tiny_run({"head_dim=15"}), 2, {"head_dim", "15", "even"}},
      {"NoLayers", tiny_run({"base_num_decoder_layers=0"}), 2, {"base_num_decoder_layers", "0", "at least 1"}},
      {"LessThanARow", tiny_run({"per_device_batch_size=0.3"}), 2, {"per_device_batch_size", "row"}},
      {"WeightsOfAnotherWidth", probe_run("wide"), 4, {"wide", "mlp.gate_proj.weight [56, 32] instead of [112, 32]"}},
      {"WeightsCut", probe_run("cut"), 4, {"cut/model.safetensors"}},
      {"ShardMissing", probe_run("shards"), 4, {"model-2.safetensors"}},
      {"RecordedRowsTooShort", recorded_run("short.safetensors"), 3, {"batches", "I32 [1, 2, 17]", "33"}},
      {"RecordedFloats", recorded_run("floats.safetensors"), 3, {"batches", "F32 [1, 2, 33]", "I32"}},
      {"RecordedIdTooLarge", recorded_run("large.safetensors"), 3, {"step 0 row 1 position 32", "128"}},
      {"ProbeUnknownWeight", probe_run(kGolden, {"--grads", "no.such.weight"}), 2, {"--grads", "no.such.weight"}},

      // Data files
      {"JsonLineBroken", text_run("json_broken"), 3, {"json_broken/train.jsonl:2", "column 10"}, true},
      {"JsonNumberForText", text_run("json_number"), 3, {"json_number/train.jsonl row 1", "'text'", "number"}, true},
      {"JsonArrayOfDocuments", text_run("json_array"), 3, {"json_array/train.json:1", "its own line"}},
      {"IdOutsideTheVocabulary", id_run("ids_large"), 3, {"ids_large/train.jsonl row 1 position 2", "500"}, true},
      {"NegativeId", id_run("ids_negative"), 3, {"ids_negative/train.jsonl row 1", "from 0"}, true},
      {"ParquetThatIsNone", text_run("parquet_none"), 3, {"parquet_none/train.parquet", "Parquet"}},
      {"GzipCut", text_run("gzip_cut"), 3, {"gzip_cut/train.jsonl.gz", "cut off", "byte 20000"}},
      {"GzipThatIsAWebPage", text_run("gzip_page"), 3, {"gzip_page/train.jsonl.gz", "corrupt gzip", "byte"}},
      {"ZstdThatIsAWebPage", text_run("zstd_page"), 3, {"zstd_page/train.jsonl.zst", "corrupt zstd", "byte 0"}},
      {"TextInLatin1", text_run("latin1"), 3, {"latin1/train.txt:2", "not UTF-8", "byte 2"}, true},
      {"SplitMissing", text_run("text", {"train_split=test"}), 3, {"'test'", "train.jsonl", "hf_train_files"}},
      {"TooLittleText", text_run("text"), 3, {"does not fill one batch", "2 rows"}, true},
      {"PatternWithoutFile", text_run("text", {"hf_train_files=none*.jsonl"}), 3, {"none*.jsonl", "no file"}},
      {"DataSetNotFetched", text_run("no_org/no_set"), 3, {"no_org/no_set", "hf download"}},
      {"ConfigurationOfADataSetMissing", text_run("text", {"hf_name=en"}), 3, {"text/en", "hf_name=en"}},

      // Tokenizers
      {"TokenizerOfSentencePiece", text_run("text", {"tokenizer_path=sp.model"}), 3, {"sp.model", "cut off"}},
      {"TokenizerFolderEmpty", text_run("text", {"tokenizer_path=empty"}), 3, {"empty", "tokenizer.json"}},
      {"TokenizerUnigramEmpty", text_run("text", {"tokenizer_path=unigram.json"}), 3, {"model.vocab", "no pieces"}},
      {"TokenizerOfBert", text_run("text", {"tokenizer_path=bert.json"}), 3, {"model.type", "WordPiece", "BPE"}},
      {"TokenizerNotFetched", text_run("text", {"tokenizer_path=no_org/no_tok"}), 3, {"no_org/no_tok", "cache"}},
      {"TokenizerMergeUnknown", text_run("text", {"tokenizer_path=merge.json"}), 3, {"merge.json", "merges[0]"}},

      // Places to write
      {"OutputBelowAFile", tiny_run({"base_output_directory=sp.model"}), 3, {"sp.model/t", "ot a directory"}},
      {"BatchThatIsNoNumber",
       {"inspect", "configs/base.yml", "dataset_type=synthetic", "--batch", "x"},
       2,
       {"--batch", "got x"}},
      {"FileOfNoKnownKind", {"inspect", "sp.model"}, 3, {"sp.model", ".parquet", ".jsonl"}},
  };
}

/// [1, 2, length] of one value, except the last.
void write_batches(const std::filesystem::path& path, StoredType type, int64_t length, int32_t last) {
  std::vector<int32_t> ids(static_cast<size_t>(2 * length), 1);
  ids.back() = last;
  write_safetensors(path, {{{"batches", type, {1, 2, length}}, std::as_bytes(std::span(ids))}});
}

void write_text_files(const ProgramFolder& folder) {
  folder.file("unknown.yml", "base_config: base.yml\nstepz: 10\n");
  folder.file("broken.yml", "steps: [1, 2\nrun_name: x\n");
  folder.file("twice.yml", "steps: 1\nsteps: 2\n");
  folder.file("circle_a.yml", "base_config: circle_b.yml\n");
  folder.file("circle_b.yml", "base_config: circle_a.yml\n");
  folder.file("base_missing.yml", "base_config: gone.yml\n");
  folder.file("list.yml", "- steps\n");
  folder.file("broken.json", "{\"model\": ");
  folder.file("sp.model", "\x0a\x0e");
  folder.file("unigram.json", R"({"model": {"type": "Unigram", "vocab": []}, "pre_tokenizer": null})");
  folder.file("bert.json", R"({"model": {"type": "WordPiece", "vocab": {}}, "pre_tokenizer": null})");
  folder.file("merge.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]},
                                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}})");
}

void write_data_folders(const ProgramFolder& folder) {
  const auto put = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    folder.file(name, text);
  };
  std::filesystem::create_directories(folder.path() / "empty");
  std::filesystem::create_directories(folder.path() / "no_weights");
  put("text/train.jsonl", "{\"text\": \"In the beginning\"}\n");
  put("json_broken/train.jsonl", "{\"text\": \"a\"}\n{\"text\": \n");
  put("json_number/train.jsonl", "{\"text\": \"a\"}\n{\"text\": 7}\n");
  put("json_array/train.json", "[{\"text\": \"a\"}]\n");
  put("ids_large/train.jsonl", "{\"text\": [1, 2]}\n{\"text\": [1, 2, 500]}\n");
  put("ids_negative/train.jsonl", "{\"text\": [1, 2]}\n{\"text\": [-1]}\n");
  put("parquet_none/train.parquet", "text\na\nb\n");
  put("gzip_cut/train.jsonl.gz", read_text(kKingJames + "/validation.jsonl.gz").substr(0, 20000));
  put("gzip_page/train.jsonl.gz", "<html>404</html>");
  put("zstd_page/train.jsonl.zst", "<html>404</html>");
  put("latin1/train.txt", "good\nGr\xfc\xdf\x65\n");
}

void write_tensor_files(const ProgramFolder& folder) {
  folder.file("cut.safetensors", std::string("\x40\0\0\0\0\0\0\0{", 9));
  write_batches(folder.path() / "short.safetensors", StoredType::kI32, 17, 1);
  write_batches(folder.path() / "floats.safetensors", StoredType::kF32, 33, 1);
  write_batches(folder.path() / "large.safetensors", StoredType::kI32, 33, 128);
  for (const char* name : {"wide", "cut", "shards"}) std::filesystem::create_directories(folder.path() / name);
  nlohmann::json model = nlohmann::json::parse(read_text(kGolden + "/config.json"));
  folder.file("cut/config.json", model.dump());
  folder.file("shards/config.json", model.dump());
  folder.file("shards/model.safetensors.index.json", R"({"weight_map": {"model.norm.weight": "model-2.safetensors"}})");
  model["intermediate_size"] = 2 * model.at("intermediate_size").get<int>();
  folder.file("wide/config.json", model.dump());
  const std::string weights = read_text(kGolden + "/model.safetensors");
  folder.file("cut/model.safetensors", weights.substr(0, weights.size() / 2));
  folder.file("wide/model.safetensors", weights);
}

class BadInputs : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, GetOneLineAndTheirExitCode) {
  const BadInput& input = GetParam();
  const ProgramFolder folder;
  write_text_files(folder);
  write_data_folders(folder);
  write_tensor_files(folder);
  const ProgramResult result = folder.run(input.arguments);
  EXPECT_EQ(result.exit_code, input.exit_code) << result.err;
  for (const std::string& part : input.parts) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  if (!input.arguments.empty()) {
    const std::string line =
        result.err.substr(result.err.rfind("error: ") == std::string::npos ? 0 : result.err.rfind("error: "));
    EXPECT_TRUE(line.starts_with("error: ")) << result.err;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << result.err;
  }
  if (input.exit_code != 1) {
    EXPECT_EQ(result.out.find("completed step"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "o.safetensors"));
  EXPECT_EQ(std::filesystem::exists(folder.path() / "out"), input.is_seen_late);
}

TEST(FullDisk, EndsTheRunWithTheNameOfTheFile) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run(tiny_run({"metrics_file=/dev/full"}));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("error: "), std::string::npos);
  EXPECT_NE(result.err.find("/dev/full"), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(Cases, BadInputs, ::testing::ValuesIn(bad_inputs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ballast::testing
