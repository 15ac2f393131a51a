// SPDX-License-Identifier: Apache-2.0
#include "metrics/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "errors/errors.h"
#include "metrics/event_file.h"

namespace ballast {
namespace {

// Vectors of RFC 3720, section B.4, and the check value every CRC catalogue lists for "123456789".
TEST(Crc32c, MatchesThePublishedVectors) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string ascending, descending;
  for (char byte = 0; byte < 32; ++byte) {
    ascending += byte;
    descending += static_cast<char>(31 - byte);
  }
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(crc32c(descending), 0x113FDB5Cu);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFile, StartsWithItsVersionAndTheStepToRestartFrom) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder / "tensorboard/r", 40);
  writer.close();
  const auto events = events_of(writer.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].bytes(3), "brain.Event:2");
  EXPECT_EQ(events[1].number(2), 40u);
  EXPECT_EQ(events[1].message(7).number(1), 1u);  // SessionLog.START
}

TEST(EventFile, KeepsEarlierFilesWithoutARestartStep) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder.path(), std::nullopt);
  writer.close();
  ASSERT_EQ(events_of(writer.path()).size(), 1u);
}

TEST(EventFile, HoldsScalarsWithStepAndWallTime) {
  const TemporaryFolder folder;
  const double before = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  TensorBoardWriter writer(folder.path(), 0);
  writer.write({"train", 300, {{"learning/loss", 2.5}, {"perf/mfu", 0.1}}});
  writer.close();
  const WireMessage event = events_of(writer.path()).at(2);
  EXPECT_EQ(event.number(2), 300u);
  EXPECT_GE(event.as<double>(1), before);
  EXPECT_LT(event.as<double>(1), before + 60);
  const auto values = event.message(5).all(1);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(WireMessage(values[0]).bytes(1), "learning/loss");
  EXPECT_EQ(WireMessage(values[0]).as<float>(2), 2.5f);
  EXPECT_EQ(WireMessage(values[1]).bytes(1), "perf/mfu");
  EXPECT_EQ(WireMessage(values[1]).as<float>(2), 0.1f);
}

TEST(EventFile, HoldsTextForTheTextPlugin) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder.path(), 0);
  const std::string text(300, 'x');  // a length of two varint bytes
  writer.text("num_model_parameters", text);
  writer.close();
  const WireMessage value = events_of(writer.path()).at(2).message(5).message(1);
  EXPECT_EQ(value.bytes(1), "num_model_parameters");
  EXPECT_EQ(value.message(9).message(1).bytes(1), "text");
  const WireMessage tensor = value.message(8);
  EXPECT_EQ(tensor.number(1), 7u);  // DT_STRING
  EXPECT_EQ(tensor.message(2).message(2).number(1), 1u);
  EXPECT_EQ(tensor.bytes(8), text);
}

TEST(EventFile, HasANameTensorBoardFindsAndNoOtherFileHas) {
  const TemporaryFolder folder;
  TensorBoardWriter first(folder.path(), 0), second(folder.path(), 0);
  const std::string name = first.path().filename().string();
  EXPECT_EQ(name.find("events.out.tfevents."), 0u) << name;
  EXPECT_NE(name.find("." + std::to_string(getpid()) + ".0"), std::string::npos) << name;
  EXPECT_NE(first.path(), second.path());
}

TEST(EventFile, AFolderThatCannotBeMadeIsAnError) {
  EXPECT_THROW(TensorBoardWriter("/dev/null/tensorboard", 0), DataError);
}

}  // namespace
}  // namespace ballast
