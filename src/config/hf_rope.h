// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings of a config.json, in the spellings of transformers 4 and 5.
#pragma once

#include "config/hf_alias.h"
#include "config/hf_reader.h"

namespace ballast {

/// Sets the rope_* and local_rope_* keys, partial_rotary_factor and original_max_position_embeddings.
/// `max_position_embeddings` stands in where no original length is given; <= 0: it cannot.
/// Throws ConfigError for an unknown rope_type, for a missing number, and where two kinds of attention have scalings
/// that no keys can say.
void read_hf_rope(HfReader& reader, const HfFamily& family, double max_position_embeddings);

}  // namespace ballast
