// SPDX-License-Identifier: Apache-2.0
#include "data/row_file.h"

#include <gtest/gtest.h>

#include "data/packed_bytes.h"
#include "data/pipeline_fakes.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

fs::path corpus(const std::string& name) {
  return fs::path(BALLAST_SOURCE_DIR) / "tests/golden/data/corpus" / name;
}

/// Every row from `first` on; null rows show as "null".
std::vector<std::string> rows_of(const fs::path& path, const Column& column, int64_t first = 0) {
  const std::unique_ptr<RowFile> file = open_row_file(path, column);
  file->seek(first);
  std::vector<std::string> rows;
  for (std::optional<Document> document; file->next(document);) {
    rows.push_back(!document ? "null" : column.holds_ids ? show(document->ids) : std::string(document->text));
  }
  return rows;
}

const Column kText{"text", false};
const Column kTokens{"tokens", true};
// What tests/golden/data/make_corpus.py writes, in row groups of three.
const std::vector<std::string> kFirstFile = {"alpha", "beta", "null", "Grüße, 世界 🌍", "", "zeta", "eta\ntheta"};

TEST(ParquetFile, ReadsTextOverRowGroupsWithNullsAndUnicode) {
  EXPECT_EQ(rows_of(corpus("train-00000-of-00002.parquet"), kText), kFirstFile);
}

TEST(ParquetFile, SeeksToEveryRow) {
  for (int64_t row = 0; row <= 7; ++row) {
    const std::vector<std::string> expected(kFirstFile.begin() + row, kFirstFile.end());
    EXPECT_EQ(rows_of(corpus("train-00000-of-00002.parquet"), kText, row), expected);
  }
}

TEST(ParquetFile, ReadsLargeStringsAndDictionaries) {
  EXPECT_EQ(rows_of(corpus("train-00001-of-00002.parquet"), kText).back(), "document 4");
  EXPECT_EQ(rows_of(corpus("validation-00000-of-00001.parquet"), kText),
            (std::vector<std::string>{"yes", "no", "yes"}));
}

TEST(ParquetFile, ReadsIdsOfAnyIntegerType) {
  EXPECT_EQ(rows_of(corpus("train-00000-of-00002.parquet"), kTokens),
            (std::vector<std::string>{"[1,2,3]", "[4]", "null", "[5,6]", "[]", "[7,8,9,10]", "[11]"}));
  EXPECT_EQ(rows_of(corpus("train-00001-of-00002.parquet"), kTokens, 3),
            (std::vector<std::string>{"[23,33]", "[24,34]"}));
  EXPECT_NE(error_line<DataError>([] {
              rows_of(corpus("validation-00000-of-00001.parquet"), kTokens);
            }).find("row 2 position 0: is no token id; got -1"),
            std::string::npos);
}

TEST(ParquetFile, KeepsTextAliveAfterTheFile) {
  std::optional<Document> document;
  {
    const std::unique_ptr<RowFile> file = open_row_file(corpus("train-00000-of-00002.parquet"), kText);
    file->next(document);
  }
  EXPECT_EQ(document->text, "alpha");
  EXPECT_NE(document->place().find("train-00000-of-00002.parquet row 0"), std::string::npos);
}

TEST(ParquetFile, ListsTheColumnsWhenOneIsMissingAndRefusesWrongTypes) {
  const fs::path path = corpus("train-00000-of-00002.parquet");
  EXPECT_NE(error_line<DataError>([&] {
              open_row_file(path, {"txt", false});
            }).find("has no column 'txt'; need one of: id, tokens, text"),
            std::string::npos);
  EXPECT_NE(error_line<DataError>([&] { open_row_file(path, {"tokens", false}); }).find("need text"),
            std::string::npos);
  EXPECT_NE(error_line<DataError>([&] { open_row_file(path, {"text", true}); }).find("need a list of integers"),
            std::string::npos);
}

TEST(ParquetFile, RefusesEveryTruncation) {
  const TempFolder folder;
  const std::string whole = read_file(corpus("validation-00000-of-00001.parquet"));
  for (size_t size = 0; size < whole.size(); size += 7) {
    const fs::path path = folder.write("cut.parquet", whole.substr(0, size));
    EXPECT_NE(error_line<DataError>([&] { rows_of(path, kText); }).find("cut.parquet"), std::string::npos) << size;
  }
}

TEST(ParquetFile, SummarizesTheTable) {
  const TableSummary summary = summarize_table(corpus("train-00000-of-00002.parquet"));
  EXPECT_EQ(summary.rows, 7);
  EXPECT_EQ(summary.row_groups, 3);
  ASSERT_EQ(summary.columns.size(), 3u);
  EXPECT_EQ(summary.columns[1].first, "tokens");
  EXPECT_EQ(summary.first_row, (std::vector<std::string>{"a0", "[1, 2, 3]", "alpha"}));
}

TEST(JsonLinesFile, ReadsTextAndCountsAbsentValuesAsNull) {
  const TempFolder folder;
  const fs::path path = folder.write(
      "t.jsonl",
      "{\"text\":\"a\\u00e9\\nb\"}\r\n\n{\"text\":null}\n{\"other\":1}\n   \n{\"text\":\"\"}\n{\"text\":\"last\"}");
  const std::vector<std::string> rows = {"aé\nb", "null", "null", "", "last"};
  EXPECT_EQ(rows_of(path, kText), rows);
  for (int64_t row = 0; row <= 5; ++row) {
    EXPECT_EQ(rows_of(path, kText, row), std::vector<std::string>(rows.begin() + row, rows.end()));
  }
}

TEST(JsonLinesFile, ReadsIds) {
  const TempFolder folder;
  EXPECT_EQ(rows_of(folder.write("t.jsonl", "{\"ids\":[1,2]}\n{\"ids\":[]}\n"), {"ids", true}),
            (std::vector<std::string>{"[1,2]", "[]"}));
  for (const char* wrong : {"[1,2.5]", "[-1]", "[2147483648]", "[\"1\"]", "3", "\"1 2\""}) {
    const fs::path path = folder.write("w.jsonl", "{\"ids\":[1]}\n{\"ids\":" + std::string(wrong) + "}\n");
    EXPECT_NE(error_line<DataError>([&] { rows_of(path, {"ids", true}); }).find("row 1: column 'ids' does not hold"),
              std::string::npos)
        << wrong;
  }
}

TEST(JsonLinesFile, NamesLineAndReason) {
  const TempFolder folder;
  const auto fault = [&](const std::string& content) {
    const fs::path path = folder.write("t.jsonl", content);
    return error_line<DataError>([&] { rows_of(path, kText); });
  };
  EXPECT_NE(fault("{\"text\":\"a\"}\n{\"text\":\n").find("t.jsonl:2: is not a JSON line"), std::string::npos);
  EXPECT_NE(fault("[\n{\"text\":\"a\"}\n]\n").find("each element of the array on its own line"), std::string::npos);
  EXPECT_NE(fault("\"a\"\n").find("t.jsonl:1: is not a JSON object"), std::string::npos);
  EXPECT_NE(fault("{\"b\":1,\"a\":2}\n").find("has no column 'text'; need one of: a, b"), std::string::npos);
  EXPECT_NE(fault("{\"text\":7}\n").find("row 0: column 'text' does not hold text; got number"), std::string::npos);
  EXPECT_NE(fault("{\"text\":\"\xff\"}\n").find("t.jsonl:1"), std::string::npos);
}

TEST(JsonLinesFile, SummarizesTheFirstRow) {
  const TempFolder folder;
  const TableSummary summary =
      summarize_table(folder.write("t.json", "{\"text\":\"a\",\"n\":[1]}\n\n{\"text\":\"b\"}\n"));
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(summary.columns, (std::vector<std::pair<std::string, std::string>>{{"n", "array"}, {"text", "string"}}));
  EXPECT_EQ(summary.first_row, (std::vector<std::string>{"[1]", "a"}));
}

TEST(JsonLinesFile, ReadsCompressedFilesAsTheirText) {
  const TempFolder folder;
  std::string text;
  std::vector<std::string> rows;
  for (int i = 0; text.size() < 600'000; ++i) {  // lines that cross the pieces in which a file is unpacked
    rows.push_back(std::to_string(i) + std::string(static_cast<size_t>(i * 131 % 5000), 'x'));
    text += "{\"text\":\"" + rows.back() + "\"}\n";
  }
  for (const fs::path& path : {folder.write("t.jsonl.gz", gzip(text)), folder.write("t.json.zst", zstd(text))}) {
    EXPECT_TRUE(rows_of(path, kText) == rows) << path;
    const auto from = static_cast<std::ptrdiff_t>(rows.size() / 2);
    EXPECT_TRUE(rows_of(path, kText, from) == std::vector<std::string>(rows.begin() + from, rows.end())) << path;
    EXPECT_EQ(summarize_table(path).rows, static_cast<int64_t>(rows.size()));
  }
}

TEST(JsonLinesFile, DeliversTheRowsBeforeTheCutAndThenTheError) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "{\"text\":\"" + std::to_string(i) + "\"}\n";
  const std::string whole = gzip(text);
  const std::unique_ptr<RowFile> file =
      open_row_file(folder.write("t.jsonl.gz", whole.substr(0, whole.size() / 2)), kText);
  std::optional<Document> document;
  int num_rows = 0;
  const std::string line = error_line<DataError>([&] {
    for (; file->next(document); ++num_rows) EXPECT_EQ(document->text, std::to_string(num_rows));
  });
  EXPECT_GT(num_rows, 10'000);
  EXPECT_NE(line.find("t.jsonl.gz: is cut off: its gzip data go on past byte " + std::to_string(whole.size() / 2)),
            std::string::npos)
      << line;
}

TEST(JsonLinesFile, CompressedKingJamesEqualsItsParquetFile) {
  const fs::path folder = fs::path(BALLAST_SOURCE_DIR) / "examples/data/kjv";
  EXPECT_TRUE(rows_of(folder / "validation.jsonl.gz", kText) ==
              rows_of(folder / "validation-00000-of-00001.parquet", kText));
}

TEST(TextFile, GivesARowALine) {
  const TempFolder folder;
  // What Hugging Face's text loader gives for these bytes (sample_by="line").
  const std::string text = "first\r\n\n  Grüße \nlast";
  const std::vector<std::string> rows = {"first", "", "  Grüße ", "last"};
  for (const fs::path& path :
       {folder.write("a.txt", text), folder.write("b.txt", text + "\n"), folder.write("c.txt.gz", gzip(text))}) {
    for (int64_t row = 0; row <= 4; ++row) {
      EXPECT_EQ(rows_of(path, kText, row), std::vector<std::string>(rows.begin() + row, rows.end())) << path;
    }
    const TableSummary summary = summarize_table(path);
    EXPECT_EQ(summary.rows, 4);
    EXPECT_EQ(summary.columns, (std::vector<std::pair<std::string, std::string>>{{"text", "string"}}));
    EXPECT_EQ(summary.first_row, std::vector<std::string>{"first"});
  }
  EXPECT_TRUE(rows_of(folder.write("d.txt", ""), kText).empty());
}

TEST(TextFile, RefusesOtherColumnsIdsAndWrongBytes) {
  const TempFolder folder;
  const fs::path path = folder.write("t.txt",
                                     "good\nb\xff"
                                     "d\n");
  const auto fault = [&](const Column& column) { return error_line<DataError>([&] { rows_of(path, column); }); };
  EXPECT_NE(fault({"body", false}).find("has no column 'body'; need text"), std::string::npos);
  EXPECT_NE(fault({"text", true}).find("holds no token ids"), std::string::npos);
  EXPECT_NE(fault(kText).find("t.txt:2: is not UTF-8 at byte 1 of the line"), std::string::npos);
}

TEST(OpenRowFile, RefusesUnknownFiles) {
  const auto fault = [](const char* name) { return error_line<DataError>([&] { open_row_file(name, kText); }); };
  EXPECT_NE(fault("x.parquet.gz").find("compressed as a whole; try unpacking it"), std::string::npos);
  for (const char* name : {"x.csv", "x.csv.gz", "x.gz", "tokenizer.json", "config.json.gz"}) {
    EXPECT_NE(fault(name).find("is no data file"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace ballast
