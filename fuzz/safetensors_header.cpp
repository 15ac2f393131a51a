// SPDX-License-Identifier: Apache-2.0
#include "errors/errors.h"
#include "files/safetensors.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"

namespace ballast::fuzz {

/// The bytes as a safetensors file; of one that is accepted every byte of data is read.
void safetensors_header(std::string_view input) {
  const InputFile input_file("input.safetensors", input);
  try {
    const SafetensorsFile file(input_file.path());
    size_t num_data_bytes = 0;
    unsigned byte_sum = 0;
    for (const StoredTensor& tensor : file.tensors()) {
      const std::span<const std::byte> bytes = file.bytes(tensor.name);
      BALLAST_CHECK(static_cast<int64_t>(bytes.size()) == tensor.num_bytes(), tensor.description());
      for (const std::byte byte : bytes) byte_sum += static_cast<unsigned>(byte);
      num_data_bytes += bytes.size();
    }
    BALLAST_CHECK(num_data_bytes <= input.size() && byte_sum <= 255 * input.size(), "data lie in the file");
  } catch (const CheckpointError&) {
  }
}

}  // namespace ballast::fuzz
