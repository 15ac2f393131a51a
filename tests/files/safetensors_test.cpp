// SPDX-License-Identifier: Apache-2.0
#include "files/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include "files/temp_folder.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// A file as the format's description lays it out: length, header, data.
std::string raw_file(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix + header + data;
}

std::string small_file() {
  std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  return raw_file(header, std::string("\0\0\x80?\0\0\0@", 8) + "xyz");
}

/// The error line for a file with this content; empty when it opens.
std::string fault_of(const std::string& content) {
  const TempFolder folder;
  const fs::path path = folder.write("w.safetensors", content);
  return error_line<CheckpointError>([&] { const SafetensorsFile file(path); });
}

std::string header_fault(const std::string& header, const std::string& data) {
  return fault_of(raw_file(header, data));
}

TEST(SafetensorsFile, ReadsAFileWrittenByHand) {
  const TempFolder folder;
  const SafetensorsFile file(folder.write("w.safetensors", small_file()));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.at("a").description(), "F32 [2]");
  float values[2];
  std::memcpy(values, file.bytes("a").data(), 8);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  EXPECT_EQ(std::memcmp(file.bytes("b").data(), "xyz", 3), 0);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(SafetensorsFile, ReadsTheTableOfTheLlamaGolden) {
  const SafetensorsFile file(fs::path(BALLAST_SOURCE_DIR) / "tests/golden/llama/model.safetensors");
  // Figures from the file's header, read with Python's json and struct.
  EXPECT_EQ(file.tensors().size(), 30u);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(file.tensors().front().name, "lm_head.weight");
  EXPECT_EQ(file.tensors().back().name, "model.norm.weight");
  EXPECT_EQ(file.at("model.layers.0.mlp.down_proj.weight").description(), "F32 [32, 56]");
  int64_t num_parameters = 0;
  for (const StoredTensor& tensor : file.tensors()) num_parameters += tensor.num_elements();
  EXPECT_EQ(num_parameters, 42976);
  float first;
  std::memcpy(&first, file.bytes("lm_head.weight").data(), 4);
  EXPECT_FLOAT_EQ(first, -0.01438796f);
}

TEST(SafetensorsFile, RefusesEveryTruncationAndNamesTheFile) {
  const std::string whole = small_file();
  ASSERT_EQ(fault_of(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string line = fault_of(whole.substr(0, size));
    EXPECT_NE(line.find("w.safetensors"), std::string::npos) << size << " bytes: " << line;
  }
  EXPECT_NE(fault_of(whole + "!"), "");
}

TEST(SafetensorsFile, OneFlippedHeaderBitGivesAnErrorOrAConsistentTable) {
  const std::string whole = small_file();
  const size_t data_begin = whole.size() - 11;
  size_t num_refused = 0;
  const TempFolder folder;
  for (size_t bit = 0; bit < 8 * data_begin; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const fs::path path = folder.write("w.safetensors", damaged);
    try {
      const SafetensorsFile file(path);
      size_t covered = 0;
      for (const StoredTensor& tensor : file.tensors()) {
        EXPECT_EQ(static_cast<int64_t>(file.bytes(tensor.name).size()), tensor.num_bytes()) << "bit " << bit;
        covered += file.bytes(tensor.name).size();
      }
      EXPECT_EQ(covered, 11u) << "bit " << bit;
    } catch (const CheckpointError&) {
      ++num_refused;
    }
  }
  // What passes is a changed name, or one of few types of equal width: the format has no checksum.
  EXPECT_GT(num_refused, 8 * data_begin * 8 / 10);
}

TEST(SafetensorsFile, NamesTheTensorAtFault) {
  const auto entry = [](const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  const std::string good = entry("good", "U8", "[4]", "[0,4]");
  const auto fault = [&](const std::string& second, const std::string& data) {
    return header_fault("{" + good + "," + second + "}", data);
  };
  const std::string data = "12345678";
  EXPECT_EQ(fault(entry("t", "U8", "[4]", "[4,8]"), data), "");
  EXPECT_NE(fault(entry("t", "I7", "[4]", "[4,8]"), data).find("'t' has an unknown dtype; got 'I7'"),
            std::string::npos);
  EXPECT_NE(fault(entry("t", "U8", "[5]", "[4,8]"), data).find("'t' has a span that does not fit U8 [5]"),
            std::string::npos);
  EXPECT_NE(fault(entry("t", "U8", "[8]", "[4,12]"), data).find("'t' lies outside the file"), std::string::npos);
  EXPECT_NE(fault(entry("t", "U8", "[4]", "[3,7]"), data).find("'t' overlaps another tensor"), std::string::npos);
  EXPECT_NE(fault(entry("t", "U8", "[3]", "[5,8]"), data).find("'t' leaves a gap"), std::string::npos);
  EXPECT_NE(fault(entry("t", "U8", "[3]", "[4,7]"), data).find("belong to no tensor"), std::string::npos);
  EXPECT_NE(fault(entry("good", "U8", "[4]", "[4,8]"), data).find("'good' stands in the header twice"),
            std::string::npos);
  EXPECT_NE(fault(entry("t", "U8", "[-4]", "[4,8]"), data).find("'t' has an impossible shape"), std::string::npos);
  EXPECT_NE(fault(entry("t", "U8", "[4294967296,4294967296]", "[4,8]"), data).find("impossible shape"),
            std::string::npos);
  EXPECT_NE(fault("\"t\":[]", data).find("'t' has no dtype"), std::string::npos);
}

TEST(SafetensorsFile, RefusesMisalignedData) {
  const auto file_with_header_of = [](size_t header_bytes) {
    std::string header = R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    header.append(header_bytes - header.size(), ' ');
    return raw_file(header, "1234");
  };
  EXPECT_EQ(fault_of(file_with_header_of(60)), "");
  EXPECT_NE(fault_of(file_with_header_of(61)).find("'t' is not aligned"), std::string::npos);
}

TEST(SafetensorsFile, RefusesHeadersThatAreNoTable) {
  EXPECT_NE(header_fault("{]", "").find("not JSON"), std::string::npos);
  EXPECT_NE(header_fault("[]", "").find("not a JSON object"), std::string::npos);
  EXPECT_NE(header_fault(R"({"__metadata__":{"a":1}})", "").find("'a' that is not text"), std::string::npos);
  EXPECT_NE(fault_of(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)).find("reaches past the end"),
            std::string::npos);
}

TEST(SafetensorsFile, ThrowsTheKindItWasOpenedFor) {
  EXPECT_NE(error_line<DataError>([] { SafetensorsFile("/nonexistent/x", ErrorKind::kData); }).find("data: /nonexis"),
            std::string::npos);
  EXPECT_NE(error_line<CheckpointError>([] { SafetensorsFile("/nonexistent/x"); }).find("checkpoint: /nonexis"),
            std::string::npos);
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TempFolder folder;
  const std::vector<int8_t> odd = {1, 2, 3};
  const std::vector<double> wide = {0.5, -1.25};
  const std::vector<float> scalar = {7.0f};
  const fs::path path = folder / "out.safetensors";
  write_safetensors(path,
                    {{{"odd", StoredType::kI8, {3}}, bytes_of(odd)},
                     {{"wide", StoredType::kF64, {2, 1}}, bytes_of(wide)},
                     {{"scalar", StoredType::kF32, {}}, bytes_of(scalar)},
                     {{"empty", StoredType::kBF16, {0, 4}}, {}}},
                    {{"step", "12"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("step"), "12");
  EXPECT_EQ(file.tensors().front().name, "wide");  // wider elements first
  EXPECT_EQ(file.at("scalar").shape, std::vector<int64_t>{});
  EXPECT_EQ(file.bytes("empty").size(), 0u);
  EXPECT_EQ(std::memcmp(file.bytes("odd").data(), odd.data(), 3), 0);
  EXPECT_EQ(std::memcmp(file.bytes("wide").data(), wide.data(), 16), 0);
  uint64_t header_bytes;
  std::memcpy(&header_bytes, read_file(path).data(), 8);
  EXPECT_EQ(header_bytes % 8, 0u);
  EXPECT_EQ(folder.num_entries(), 1u);
}

TEST(SafetensorsWriter, AcceptsTensorsInAnyOrder) {
  const TempFolder folder;
  const std::vector<float> first = {1};
  const std::vector<float> second = {2};
  SafetensorsWriter writer(folder / "out.safetensors", {{"a", StoredType::kF32, {1}}, {"b", StoredType::kF32, {1}}});
  writer.write(1, bytes_of(second));
  EXPECT_THROW(writer.finish(), InternalError);
  writer.write(0, bytes_of(first));
  EXPECT_THROW(writer.write(0, bytes_of(first)), InternalError);
  writer.finish();
  const SafetensorsFile file(folder / "out.safetensors");
  EXPECT_EQ(std::memcmp(file.bytes("b").data(), second.data(), 4), 0);
}

TEST(SafetensorsWriter, LeavesTheOldFileWhenItIsNotFinished) {
  const TempFolder folder;
  const fs::path path = folder.write("out.safetensors", "old");
  {
    const SafetensorsWriter writer(path, {{"a", StoredType::kF32, {1}}});
    EXPECT_EQ(folder.num_entries(), 2u);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(folder.num_entries(), 1u);
}

TEST(SafetensorsWriter, LeavesNothingWhenThereIsNoRoom) {
  const TempFolder folder;
  const fs::path path = folder.write("out.safetensors", "old");
  const std::vector<float> values(4096);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1024, before.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string line = error_line<CheckpointError>(
      [&] { write_safetensors(path, {{{"a", StoredType::kF32, {4096}}, bytes_of(values)}}); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(line.find("out.safetensors: cannot be written (File too large)"), std::string::npos) << line;
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(folder.num_entries(), 1u);
}

TEST(SafetensorsWriter, RefusesATakenNameAndAMissingFolder) {
  const TempFolder folder;
  const StoredTensor tensor{"a", StoredType::kF32, {1}};
  EXPECT_THROW(SafetensorsWriter(folder / "x", {tensor, tensor}), CheckpointError);
  EXPECT_THROW(SafetensorsWriter(folder / "none/x", {tensor}), CheckpointError);
  EXPECT_EQ(folder.num_entries(), 0u);
}

}  // namespace
}  // namespace ballast
