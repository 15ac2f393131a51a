// SPDX-License-Identifier: Apache-2.0
#include "data/packing.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/pipeline_fakes.h"
#include "data/random.h"

namespace ballast {
namespace {

/// Pieces of the given lengths; piece i holds the id i.
std::vector<Ids> pieces_of(const std::vector<size_t>& lengths) {
  std::vector<Ids> pieces;
  for (size_t i = 0; i < lengths.size(); ++i) pieces.emplace_back(lengths[i], static_cast<int32_t>(i));
  return pieces;
}

std::unique_ptr<Packer> packer_of(const std::vector<size_t>& lengths, const PackingSettings& settings) {
  return std::make_unique<Packer>(list_stage(pieces_of(lengths)), settings);
}

std::vector<size_t> random_lengths(size_t count, uint64_t row_length) {
  DataRandom random(DataStream::kFileOrder, {11});
  std::vector<size_t> lengths(count);
  for (size_t& length : lengths) length = 1 + random.below(row_length);
  return lengths;
}

TEST(Packer, PutsEachPieceIntoTheOldestRowWithRoom) {
  // Rows of 10. 6 opens row A, 5 row B, 4 fills A, which leaves; 3 goes to B; 2 fills B.
  const auto packer = packer_of({6, 5, 4, 3, 2, 1}, {.row_length = 10});
  EXPECT_EQ(show(*packer->next()), "[0,0,0,0,0,0,2,2,2,2][6,4]");
  EXPECT_EQ(show(*packer->next()), "[1,1,1,1,1,3,3,3,4,4][5,3,2]");
  EXPECT_EQ(show(*packer->next()), "[5][1]");
  EXPECT_EQ(packer->next(), std::nullopt);
}

TEST(Packer, ClosesTheFullestRowWhenTooManyAreOpen) {
  // Two open rows: 5, 7; 6 fits neither, so the row of 7 leaves. At the end the oldest leaves first.
  const auto packer = packer_of({5, 7, 6}, {.row_length = 10, .open_rows = 2});
  EXPECT_EQ(packer->next()->document_lengths, (std::vector<int64_t>{7}));
  EXPECT_EQ(packer->next()->document_lengths, (std::vector<int64_t>{5}));
  EXPECT_EQ(packer->next()->document_lengths, (std::vector<int64_t>{6}));
}

TEST(Packer, KeepsToTheLargestNumberOfDocuments) {
  const auto packer = packer_of({1, 1, 1, 1, 1}, {.row_length = 10, .max_documents = 2});
  EXPECT_EQ(packer->next()->document_lengths, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(packer->next()->document_lengths, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(packer->next()->document_lengths, (std::vector<int64_t>{1}));
  const auto unpacked = packer_of({3, 10, 4}, {.row_length = 10, .max_documents = 1});
  EXPECT_EQ(drain(*unpacked).size(), 3u);
}

TEST(Packer, LosesNoTokenAndWastesLittle) {
  const std::vector<size_t> lengths = random_lengths(2000, 60);
  const size_t num_tokens = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
  const auto packer = packer_of(lengths, {.row_length = 128});
  std::vector<size_t> seen(lengths.size(), 0);
  size_t num_rows = 0;
  while (const std::optional<PackedRow> row = packer->next()) {
    ++num_rows;
    ASSERT_LE(row->tokens.size(), 128u);
    ASSERT_EQ(std::accumulate(row->document_lengths.begin(), row->document_lengths.end(), int64_t{0}),
              static_cast<int64_t>(row->tokens.size()));
    for (const int32_t id : row->tokens) ++seen[static_cast<size_t>(id)];
  }
  EXPECT_EQ(seen, lengths);
  EXPECT_LT(num_rows * 128, num_tokens * 103 / 100);
}

TEST(Packer, ResumesExactlyWithOpenAndClosedRows) {
  const std::vector<size_t> lengths = random_lengths(60, 16);
  expect_exact_resume([&] { return packer_of(lengths, {.row_length = 16, .open_rows = 4}); });
  expect_exact_resume([&] { return packer_of(lengths, {.row_length = 20, .max_documents = 2, .open_rows = 3}); });
}

}  // namespace
}  // namespace ballast
