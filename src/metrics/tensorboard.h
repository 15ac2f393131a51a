// SPDX-License-Identifier: Apache-2.0
// TensorBoard event files: length-framed protocol buffers with masked CRC-32C.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/output_file.h"
#include "metrics/record.h"

namespace ballast {

/// CRC-32C (Castagnoli, reflected 0x82F63B78) of `bytes`.
uint32_t crc32c(std::string_view bytes);

/// Writes one event file, events.out.tfevents.<unix seconds>.<host>.<pid>.<n>, into a run's folder; n is the first
/// number that is free.
class TensorBoardWriter {
 public:
  /// @param restart_step  TensorBoard forgets what earlier event files of the folder say about this and later steps;
  ///                      absent: it keeps all
  /// @throws DataError where the file cannot be created
  TensorBoardWriter(const std::filesystem::path& folder, std::optional<int64_t> restart_step);
  /// All scalars of the record in one event, as 32-bit floats under their tags.
  void write(const Record& record);
  /// A text summary at step 0 (text plugin, one string).
  void text(const std::string& tag, const std::string& text);
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }
  void close() { file_.close(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void write_event(int64_t step, std::string_view payload);
  OutputFile file_;
};

}  // namespace ballast
