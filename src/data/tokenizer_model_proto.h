// SPDX-License-Identifier: Apache-2.0
// Checks the bytes of a SentencePiece model before the library sees them, which trusts more than it should.
#pragma once

#include <string>
#include <string_view>

namespace ballast {

/// What the library does not tell.
struct ModelFacts {
  /// A word that begins with a space is encoded on its own as it is in its text: byte-pair encoding, no pieces with a
  /// space inside, and a normalizer that only marks spaces.
  bool has_independent_words = false;
  bool has_dummy_prefix = true;  ///< every text gets a space in front
};

/// Throws DataError with `file` unless `bytes` are a whole ModelProto: well-formed fields, one piece or more, none
/// empty or with a zero byte (where the library ends its texts), finite scores, and sound character maps.
/// @source google/sentencepiece src/sentencepiece_model.proto; the protocol buffers wire format
ModelFacts check_model_proto(std::string_view bytes, const std::string& file);

}  // namespace ballast
