// SPDX-License-Identifier: Apache-2.0
#include "apps/inspect_checkpoint.h"

#include <cstdio>
#include <string>
#include <vector>

#include "apps/listing.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_reader.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

uint64_t folder_bytes(const fs::path& folder) {
  uint64_t num_bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const uint64_t size = entry.file_size(error);
    if (!error) num_bytes += size;
  }
  return num_bytes;
}

struct CheckpointState {
  bool is_good = false;
  std::string text;
};

CheckpointState state_of(const fs::path& folder, int64_t step, bool verifies) {
  if (!has_complete_marker(folder)) return {false, "not complete"};
  try {
    const CheckpointReader reader(folder);
    if (reader.manifest().step != step) return {false, "holds step " + std::to_string(reader.manifest().step)};
    if (verifies) reader.verify();
    return {true, "complete, " + std::string(checkpoint_kind_name(reader.manifest().kind)) +
                      (verifies ? ", every checksum is right" : "")};
  } catch (const DamagedCheckpointError& error) {
    return {false, std::string("damaged: ") + error.what()};
  } catch (const CheckpointError& error) {
    return {false, std::string("cannot be read: ") + error.what()};
  }
}

}  // namespace

void inspect_checkpoint(const fs::path& folder, bool verifies) {
  const CheckpointReader reader(folder);
  if (verifies) reader.verify();
  const Manifest& manifest = reader.manifest();
  std::printf("%s\n", folder.c_str());
  std::vector<std::vector<std::string>> rows = {{"kind", std::string(checkpoint_kind_name(manifest.kind))},
                                                {"step", std::to_string(manifest.step)},
                                                {"program", manifest.program},
                                                {"config digest", manifest.config_digest}};
  print_table(rows);
  rows.clear();
  for (const ManifestFile& file : manifest.files) rows.push_back({"  " + file.name, size_text(file.bytes)});
  std::printf("files\n");
  print_table(rows);
  std::vector<StoredTensor> tensors;
  tensors.reserve(manifest.tensors.size());
  for (const ManifestTensor& entry : manifest.tensors) tensors.push_back(entry.tensor);
  std::printf("tensors\n");
  print_tensors(tensors);
  print_totals(tensors);
  if (verifies) std::printf("ok: every checksum is right\n");
}

bool inspect_checkpoints(const fs::path& root, bool verifies) {
  std::vector<std::vector<std::string>> rows = {{"step", "size", "state"}};
  bool are_good = true;
  for (const int64_t step : checkpoint_steps(root)) {
    const fs::path folder = root / std::to_string(step);
    const CheckpointState state = state_of(folder, step, verifies);
    rows.push_back({std::to_string(step), size_text(folder_bytes(folder)), state.text});
    are_good = are_good && state.is_good;
  }
  std::printf("%s\n", root.c_str());
  if (rows.size() == 1) {
    std::printf("no checkpoint\n");
  } else {
    print_table(rows);
  }
  return are_good;
}

}  // namespace ballast
