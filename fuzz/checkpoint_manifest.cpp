// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"
#include "errors/errors.h"
#include "fuzz/targets.h"

namespace ballast::fuzz {

/// The bytes as a manifest; one that is accepted says what it means: written and read again it is the same text.
void checkpoint_manifest(std::string_view input) {
  try {
    const Manifest manifest = parse_manifest(input, "manifest.json");
    for (const ManifestTensor& entry : manifest.tensors) {
      int64_t num_elements = 0;
      for (const TensorPiece& piece : entry.pieces) {
        BALLAST_CHECK(piece.file < manifest.files.size(), "a piece lies in a listed file");
        num_elements += StoredTensor{{}, entry.tensor.type, piece.shape}.num_elements();
      }
      BALLAST_CHECK(num_elements == entry.tensor.num_elements(), entry.tensor.description());
    }
    const std::string text = to_json(manifest);
    BALLAST_CHECK(to_json(parse_manifest(text, "manifest.json")) == text, "a manifest is written as it was read");
  } catch (const CheckpointError&) {
  }
}

}  // namespace ballast::fuzz
