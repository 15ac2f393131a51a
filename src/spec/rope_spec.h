// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings from the configuration's rope_* keys.
#pragma once

#include <cstdint>

#include "spec/decoder_spec.h"

namespace ballast {

/// Which layers a set of rotary frequencies serves. Sliding layers take local_rope_type and local_rope_max_timescale
/// where these are set.
enum class RopeReach { kFullLayers, kSlidingLayers };

/// The frequencies that `config` asks for. Throws ConfigError for an unknown rope_type and for numbers without a
/// meaning (an odd width, a factor <= 0, high_freq_factor <= low_freq_factor ...).
RopeSpec make_rope_spec(const Config& config, RopeReach reach, bool multiplies_in_fp32);

/// The frequencies of the rotating part of latent attention, qk_rope_head_dim channels; rope_interleave counts for
/// every rope_type. Throws as above, and where partial_rotary_factor asks for a part of them.
RopeSpec make_latent_rope_spec(const Config& config, bool multiplies_in_fp32);

/// What YaRN makes of the softmax scale of latent attention: (0.1 mscale ln(rope_factor) + 1)^2; 1 without YaRN.
double latent_scale_factor(const Config& config);

}  // namespace ballast
