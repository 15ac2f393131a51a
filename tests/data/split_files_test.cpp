// SPDX-License-Identifier: Apache-2.0
#include "data/split_files.h"

#include <gtest/gtest.h>

#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

class SplitFiles : public testing::Test {
 protected:
  std::vector<std::string> names(const SplitQuery& query) const {
    std::vector<std::string> names;
    for (const auto& path : find_split_files(query)) {
      names.push_back(std::filesystem::relative(path, folder_.path()).string());
    }
    return names;
  }
  std::string fault(const SplitQuery& query) const {
    return error_line<DataError>([&] { find_split_files(query); });
  }
  SplitQuery query(const std::string& split) const {
    SplitQuery query;
    query.path = folder_.path().string();
    query.split = split;
    query.files_key = "hf_train_files";
    return query;
  }

  TempFolder folder_;
};

using Names = std::vector<std::string>;

TEST_F(SplitFiles, TakesParquetFirstAndFilesWithTheSplitInTheirName) {
  for (const char* name : {"train-1.parquet", "train-0.parquet", "validation.parquet", "train.jsonl", "train.txt"}) {
    folder_.write(name, "");
  }
  EXPECT_EQ(names(query("train")), (Names{"train-0.parquet", "train-1.parquet"}));
  EXPECT_EQ(names(query("validation")), (Names{"validation.parquet"}));
  EXPECT_NE(fault(query("test")).find("has no file for split 'test'; got train-0.parquet, train-1.parquet, vali"),
            std::string::npos);
}

TEST_F(SplitFiles, TakesOneFormatJsonLinesBeforePlainText) {
  for (const char* name : {"train.jsonl.gz", "train.json.zst", "train.txt", "train.csv.gz"}) folder_.write(name, "");
  EXPECT_EQ(names(query("train")), (Names{"train.json.zst", "train.jsonl.gz"}));
  folder_.write("en/train.txt", "");
  folder_.write("en/train.txt.zst", "");
  folder_.write("en/validation.txt.gz", "");
  SplitQuery wanted = query("train");
  wanted.name = "en";
  EXPECT_EQ(names(wanted), (Names{"en/train.txt", "en/train.txt.zst"}));
}

TEST_F(SplitFiles, NeverTakesTheTokenizerOrTheModelConfiguration) {
  for (const char* name : {"tokenizer.json", "config.json", "o.json"}) folder_.write(name, "");
  EXPECT_EQ(names(query("o")), (Names{"o.json"}));
}

TEST_F(SplitFiles, SearchesSubFoldersByNameAndTheDataFolder) {
  folder_.write("en/train.jsonl", "");
  folder_.write("de/x/data/train.jsonl", "");
  SplitQuery wanted = query("train");
  wanted.name = "en";
  EXPECT_EQ(names(wanted), (Names{"en/train.jsonl"}));
  wanted.name = "de";
  wanted.data_dir = "x";
  EXPECT_EQ(names(wanted), (Names{"de/x/data/train.jsonl"}));
  wanted.data_dir = "y";
  EXPECT_NE(fault(wanted).find("hf_data_dir=y is no folder there"), std::string::npos);
  EXPECT_NE(fault(query("train")).find("holds no data files"), std::string::npos);
}

TEST_F(SplitFiles, TakesExplicitFilesAndPatternsAsTheyStand) {
  for (const char* name : {"b.jsonl", "a.jsonl", "c.parquet"}) folder_.write(name, "");
  SplitQuery wanted = query("train");
  wanted.files = {(folder_ / "c.parquet").string(), "?.jsonl"};  // the second one is relative to hf_path
  EXPECT_EQ(names(wanted), (Names{"c.parquet", "a.jsonl", "b.jsonl"}));
  wanted.path = "parquet";  // MaxText's name of a file format
  wanted.files = {(folder_ / "c*").string()};
  EXPECT_EQ(names(wanted), (Names{"c.parquet"}));
  wanted.files = {"none*.jsonl"};
  EXPECT_NE(fault(wanted).find("hf_train_files=none*.jsonl: matches no file"), std::string::npos);
}

TEST_F(SplitFiles, OneFileIsTheTrainingSplitOnly) {
  SplitQuery wanted = query("train");
  wanted.path = folder_.write("corpus.jsonl", "").string();
  wanted.takes_single_file = true;
  EXPECT_EQ(names(wanted), (Names{"corpus.jsonl"}));
  wanted.takes_single_file = false;
  wanted.files_key = "hf_eval_files";
  EXPECT_NE(fault(wanted).find("is one file, which holds no split 'train'; try setting hf_eval_files"),
            std::string::npos);
}

TEST_F(SplitFiles, SaysHowToGetADataSetThatIsNotHere) {
  SplitQuery wanted = query("train");
  wanted.path = "no_such_org/no_such_set";
  EXPECT_NE(fault(wanted).find("hf download --repo-type dataset no_such_org/no_such_set"), std::string::npos);
}

}  // namespace
}  // namespace ballast
