// SPDX-License-Identifier: Apache-2.0
// Checks the bytes of a SentencePiece model before the library sees them, which trusts more than it should.
#pragma once

#include <string>
#include <string_view>

namespace ballast {

/// Throws DataError with `where` unless `bytes` are a whole ModelProto: well-formed fields, one piece or more, none
/// empty, finite scores, and sound character maps.
/// @source google/sentencepiece src/sentencepiece_model.proto; the protocol buffers wire format
void check_model_proto(std::string_view bytes, const std::string& file);

}  // namespace ballast
