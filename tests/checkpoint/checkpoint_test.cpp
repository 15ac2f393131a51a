// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/checkpoint_saver.h"
#include "checkpoint/checksum.h"
#include "checkpoint_files.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

fs::path write_small(const TempFolder& folder, int64_t step = 5) {
  const std::vector<FloatTensor> tensors = small_tensors();
  CheckpointWriter writer(folder / std::to_string(step), small_content(tensors, step));
  writer.write();
  return folder / std::to_string(step);
}

std::vector<float> read_floats(const CheckpointReader& reader, const std::string& name) {
  const ManifestTensor* entry = reader.find(name);
  std::vector<float> values(static_cast<size_t>(entry->tensor.num_elements()));
  reader.read({{entry, std::as_writable_bytes(std::span(values))}});
  return values;
}

void put_file(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// XXH3_64bits of the empty input, as the xxHash specification prints it.
TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum_of(std::string_view()), "2d06800538d394c2");
  Checksum pieces;
  pieces.update(std::as_bytes(std::span("abc", 3)));
  pieces.update(std::as_bytes(std::span("de", 2)));
  EXPECT_EQ(pieces.text(), checksum_of(std::string_view("abcde")));
}

TEST(Checkpoint, ComesBackAsItWas) {
  const TempFolder folder;
  const fs::path path = write_small(folder);
  const CheckpointReader reader(path);
  EXPECT_EQ(reader.manifest().step, 5);
  EXPECT_EQ(reader.manifest().kind, CheckpointKind::kTraining);
  EXPECT_EQ(reader.document("state.json"), R"({"updates": 3})");
  EXPECT_EQ(reader.document(kConfigName), "steps: 10\n");
  for (const FloatTensor& tensor : small_tensors()) EXPECT_EQ(read_floats(reader, tensor.stored.name), tensor.values);
  EXPECT_EQ(folder.num_entries(), 1U) << "nothing is left beside it";
  // Its weights are an ordinary safetensors file.
  EXPECT_EQ(SafetensorsFile(path / "model-r00000.safetensors").at("a.weight").description(), "F32 [3, 4]");
}

// Each byte of each file is under a checksum: whichever bit flips, some line says so.
TEST(Checkpoint, EveryFlippedBitIsFound) {
  const TempFolder folder;
  const fs::path path = write_small(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string good = read_file(entry.path());
    for (size_t bit = 0; bit < good.size() * 8; bit += good.size() > 500 ? 13 : 1) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      put_file(entry.path(), bad);
      const std::string line = error_line<CheckpointError>([&] { CheckpointReader(path).verify(); });
      // A trailing line break of the marker that is another blank one stays harmless; everything else must be named.
      EXPECT_NE(line.find(path.filename().string()), std::string::npos) << entry.path().filename() << " bit " << bit;
    }
    put_file(entry.path(), good);
  }
  EXPECT_EQ(error_line<CheckpointError>([&] { CheckpointReader(path).verify(); }), "");
}

TEST(Checkpoint, EveryCutIsFound) {
  const TempFolder folder;
  const fs::path path = write_small(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string good = read_file(entry.path());
    const bool is_marker = entry.path().filename() == kCompleteName;
    for (size_t size = 0; size + (is_marker ? 1 : 0) < good.size(); ++size) {
      put_file(entry.path(), good.substr(0, size));
      const std::string line = error_line<CheckpointError>([&] { CheckpointReader(path).verify(); });
      EXPECT_NE(line, "") << entry.path().filename() << " cut to " << size;
    }
    fs::remove(entry.path());
    EXPECT_NE(error_line<CheckpointError>([&] { CheckpointReader(path).verify(); }), "") << entry.path().filename();
    put_file(entry.path(), good);
  }
}

TEST(Checkpoint, WithoutMarkerIsNotComplete) {
  const TempFolder folder;
  const fs::path path = write_small(folder);
  fs::remove(path / kCompleteName);
  EXPECT_EQ(error_line<CheckpointError>([&] { CheckpointReader reader(path); }),
            "checkpoint: " + path.string() + ": not complete (no COMPLETE file)");
}

TEST(Checkpoint, NewerFormatIsRefused) {
  const TempFolder folder;
  const fs::path path = write_small(folder);
  std::string manifest = read_file(path / kManifestName);
  const std::string now = "\"version\":1";
  manifest.replace(manifest.find(now), now.size(), "\"version\":2");
  put_file(path / kManifestName, manifest);
  put_file(path / kCompleteName, checksum_of(manifest));
  const std::string line = error_line<CheckpointError>([&] { CheckpointReader reader(path); });
  EXPECT_NE(line.find("has a newer format; got version 2, need at most 1"), std::string::npos) << line;
}

// A 3 x 4 tensor in two boxes: columns 0..2 and column 3, as two ranks would write it.
TEST(Checkpoint, PiecesFormTheWholeTensor) {
  const TempFolder folder;
  const FloatTensor left("w", {3, 3}, 0.0F), right("w", {3, 1}, 100.0F);
  const fs::path path = folder / "7";
  CheckpointContent content;
  content.step = 7;
  content.tensor_files = {{"model-r00000.safetensors", {left.snapshot()}},
                          {"model-r00001.safetensors", {right.snapshot()}}};
  // The writer of one rank knows whole tensors only; the manifest is put together here.
  content.tensor_files[1].tensors[0].tensor.name = "w";
  CheckpointContent first = content, second = content;
  first.tensor_files.pop_back();
  second.tensor_files.erase(second.tensor_files.begin());
  CheckpointWriter(folder / "7", first).write();
  CheckpointWriter(folder / "8", second).write();
  Manifest manifest = CheckpointReader(path).manifest();
  const Manifest other = CheckpointReader(folder / "8").manifest();
  fs::copy_file(folder / "8/model-r00001.safetensors", path / "model-r00001.safetensors");
  manifest.files.push_back(*other.find_file("model-r00001.safetensors"));
  TensorPiece piece = other.tensors[0].pieces[0];
  piece.file = manifest.files.size() - 1;
  piece.begin = {0, 3};
  manifest.tensors[0].tensor.shape = {3, 4};
  manifest.tensors[0].pieces.push_back(piece);
  put_file(path / kManifestName, to_json(manifest));
  put_file(path / kCompleteName, checksum_of(to_json(manifest)));
  EXPECT_EQ(read_floats(CheckpointReader(path), "w"), (std::vector<float>{0, 1, 2, 100, 3, 4, 5, 101, 6, 7, 8, 102}));
}

TEST(CheckpointFolder, OrdersByNumberAndKnowsNoOtherNames) {
  const TempFolder folder;
  for (const char* name : {"9", "10", "100", "007", "12.tmp-77", "x", "3.damaged"}) fs::create_directory(folder / name);
  folder.write("8", "a file");
  EXPECT_EQ(checkpoint_steps(folder.path()), (std::vector<int64_t>{9, 10, 100}));
  EXPECT_TRUE(checkpoint_steps(folder / "missing").empty());
}

TEST(CheckpointFolder, PrunesTheOldestCompleteOnes) {
  const TempFolder folder;
  for (const int64_t step : {1, 2, 9, 10}) write_small(folder, step);
  fs::remove(folder / "9" / kCompleteName);
  prune_checkpoints(folder.path(), 2);
  EXPECT_EQ(checkpoint_steps(folder.path()), (std::vector<int64_t>{2, 9, 10}));
  EXPECT_EQ(folder.num_entries(), 3U);
}

TEST(CheckpointFolder, RemovesWhatAKilledProgramLeft) {
  const TempFolder folder;
  for (const char* name : {"3.tmp-1/x", "4.old-99", "5", "notes.tmp-1"}) fs::create_directories(folder / name);
  remove_unfinished(folder.path());
  EXPECT_FALSE(fs::exists(folder / "3.tmp-1"));
  EXPECT_FALSE(fs::exists(folder / "4.old-99"));
  EXPECT_TRUE(fs::exists(folder / "5"));
  EXPECT_TRUE(fs::exists(folder / "notes.tmp-1"));
}

TEST(FolderLock, IsHeldByOneProgram) {
  const TempFolder folder;
  const fs::path root = folder / "run/checkpoints";
  const FolderLock lock(root);
  const pid_t child = fork();
  if (child == 0) {
    const std::string line = error_line<CheckpointError>([&] { FolderLock second(root); });
    _exit(line.find("another program trains into this folder") == std::string::npos ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(CheckpointSaver, WritesBesideAndKeepsTheNewest) {
  const TempFolder folder;
  std::vector<FloatTensor> tensors = small_tensors();
  CheckpointSaver saver(folder.path(), 2);
  for (const int64_t step : {8, 9, 10, 11}) {
    saver.start(small_content(tensors, step));
    saver.detach();
    for (FloatTensor& tensor : tensors) tensor.values[0] += 1000;  // the training goes on
  }
  const auto report = saver.finish();
  ASSERT_TRUE(report.has_value());
  EXPECT_NE(report->find("/11 saved, "), std::string::npos) << *report;
  EXPECT_EQ(checkpoint_steps(folder.path()), (std::vector<int64_t>{10, 11}));
  EXPECT_EQ(read_floats(CheckpointReader(folder / "10"), "b"), (std::vector<float>{2000.5F}));
  EXPECT_EQ(read_floats(CheckpointReader(folder / "11"), "b"), (std::vector<float>{3000.5F}));
}

TEST(CheckpointSaver, AFailedSaveIsReportedAndLeavesNothing) {
  const TempFolder folder;
  folder.write("file", "");
  const std::vector<FloatTensor> tensors = small_tensors();
  CheckpointSaver saver(folder / "file", std::nullopt);  // a file where the folder should be
  saver.start(small_content(tensors, 1));
  const std::string line = error_line<CheckpointError>([&] { saver.finish(); });
  EXPECT_NE(line.find("cannot be created"), std::string::npos) << line;
  EXPECT_EQ(saver.finish(), std::nullopt) << "an error is told once";
}

TEST(CheckpointWriter, SetsAsideWhatIsThereAlready) {
  const TempFolder folder;
  folder.write("5/manifest.json", "damaged");
  write_small(folder);
  EXPECT_EQ(read_file(folder / "5.damaged/manifest.json"), "damaged");
  EXPECT_EQ(CheckpointReader(folder / "5").manifest().step, 5);
}

// Whatever the moment of detach(), the reader sees the bytes from before it.
TEST(Snapshot, KeepsTheOldBytes) {
  for (const size_t when : {size_t{0}, size_t{1}, size_t{3}, size_t{100}}) {
    std::vector<float> values((size_t{5} << 20) + 3);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
    const std::vector<float> before = values;
    Snapshot snapshot(
        {{{"w", StoredType::kF32, {static_cast<int64_t>(values.size())}}, std::as_bytes(std::span(values)), nullptr}});
    std::vector<std::byte> seen;
    size_t num_chunks = 0;
    if (when == 0) {
      snapshot.detach();
      std::fill(values.begin(), values.end(), -1.0F);
    }
    std::thread training;
    snapshot.read([&](size_t, std::span<const std::byte> chunk) {
      if (++num_chunks == when) {
        training = std::thread([&] {
          snapshot.detach();
          std::fill(values.begin(), values.end(), -1.0F);
        });
      }
      seen.insert(seen.end(), chunk.begin(), chunk.end());
    });
    if (training.joinable()) training.join();
    EXPECT_EQ(num_chunks, 6U);
    ASSERT_EQ(seen.size(), before.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(seen.data(), before.data(), seen.size()), 0) << "detached at chunk " << when;
  }
}

// Chunks that are made while they are read stay out of memory: detach() has nothing to copy of them.
TEST(Snapshot, MakesTensorsPieceByPiece) {
  const size_t num_bytes = Snapshot::kChunkBytes * 2 + 12;
  SnapshotTensor made{.tensor = {"w", StoredType::kU8, {static_cast<int64_t>(num_bytes)}}, .bytes = {}, .owner = {}};
  made.make = [](size_t offset, std::span<std::byte> chunk) {
    for (size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<std::byte>((offset + i) % 251);
  };
  Snapshot snapshot({made});
  EXPECT_EQ(snapshot.num_bytes(), num_bytes);
  snapshot.detach();
  std::vector<size_t> sizes;
  size_t position = 0;
  snapshot.read([&](size_t, std::span<const std::byte> chunk) {
    sizes.push_back(chunk.size());
    for (const std::byte byte : chunk) ASSERT_EQ(byte, static_cast<std::byte>(position++ % 251));
  });
  EXPECT_EQ(sizes, (std::vector<size_t>{Snapshot::kChunkBytes, Snapshot::kChunkBytes, 12}));
}

TEST(CheckpointFolder, TellsACheckpointFromARun) {
  const TempFolder folder;
  fs::create_directory(folder / "checkpoints");
  write_small(folder, 7);
  EXPECT_TRUE(is_checkpoint_folder(folder / "7"));
  EXPECT_FALSE(is_checkpoint_folder(folder.path()));
  EXPECT_EQ(find_checkpoints(folder.path()), folder / "checkpoints");
  EXPECT_EQ(find_checkpoints(folder / "checkpoints"), folder / "checkpoints");
  fs::remove(folder / "checkpoints");
  EXPECT_EQ(find_checkpoints(folder.path()), folder.path());
  fs::remove_all(folder / "7");
  folder.write("2024/train.jsonl", "{}");  // a folder of data by year
  EXPECT_TRUE(find_checkpoints(folder.path()).empty());
}

}  // namespace
}  // namespace ballast
