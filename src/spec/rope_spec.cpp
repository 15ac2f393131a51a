// SPDX-License-Identifier: Apache-2.0
#include "spec/rope_spec.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "config/key_table.h"
#include "config/value.h"
#include "spec/spec_error.h"

namespace ballast {
namespace {

int64_t rotary_width(const Config& config) {
  const auto width = static_cast<int64_t>(static_cast<double>(config.head_dim) * config.partial_rotary_factor);
  if (width < 2 || width % 2 != 0) {
    fail_spec(config, "head_dim", "rotary embeddings turn pairs of channels",
              to_text(width) + " channels (head_dim * partial_rotary_factor)", "an even number > 0");
  }
  return width;
}

/// A number of rope_type=llama3.1: Meta's, which MaxText fixes, unless somebody wanted another one. The defaults are
/// DeepSeek's, made for YaRN.
double llama31_number(const Config& config, const std::string& key, double value, double meta_value) {
  return is_chosen(config, *find_key(key)) ? value : meta_value;
}

void read_llama31(const Config& config, RopeSpec& rope) {
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = llama31_number(config, "rope_factor", config.rope_factor, 8.0);
  rope.original_max_position_embeddings =
      llama31_number(config, "original_max_position_embeddings", config.original_max_position_embeddings, 8192.0);
  rope.low_freq_factor = config.rope_low_freq_factor;
  rope.high_freq_factor = config.rope_high_freq_factor;
  if (!(rope.high_freq_factor > rope.low_freq_factor)) {
    fail_spec(config, "rope_high_freq_factor", "the band between the two factors is empty",
              to_text(rope.high_freq_factor), "more than rope_low_freq_factor=" + to_text(rope.low_freq_factor));
  }
}

void read_yarn(const Config& config, RopeSpec& rope) {
  rope.scaling = RopeScaling::kYarn;
  rope.is_interleaved = config.rope_interleave;
  rope.factor = config.rope_factor;
  rope.original_max_position_embeddings = config.original_max_position_embeddings;
  rope.beta_fast = config.beta_fast;
  rope.beta_slow = config.beta_slow;
  rope.truncate = config.rope_truncate;
  if (config.rope_attention_factor.has_value()) {
    rope.attention_factor = *config.rope_attention_factor;
  } else if (config.rope_attention_scaling && rope.factor > 1) {
    rope.attention_factor = 0.1 * std::log(rope.factor) + 1.0;
  }
}

/// Pair whose channels turn `turns` times over the original length, as a real number.
double pair_of_turns(const RopeSpec& rope, double turns) {
  const auto width = static_cast<double>(rope.rotary_dim);
  return width * std::log(rope.original_max_position_embeddings / (2 * std::numbers::pi * turns)) /
         (2 * std::log(rope.theta));
}

double llama3_frequency(const RopeSpec& rope, double frequency) {
  const double turns = rope.original_max_position_embeddings * frequency / (2 * std::numbers::pi);
  if (turns > rope.high_freq_factor) return frequency;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  const double share = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - share) * frequency / rope.factor + share * frequency;
}

/// Blends each pair between its own frequency (0) and the divided one (1), along a ramp of pair numbers.
void apply_yarn(const RopeSpec& rope, std::vector<double>& frequencies) {
  double low = pair_of_turns(rope, rope.beta_fast);
  double high = pair_of_turns(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;
  for (size_t j = 0; j < frequencies.size(); ++j) {
    const double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    frequencies[j] = frequencies[j] * (1 - ramp) + frequencies[j] / rope.factor * ramp;
  }
}

RopeSpec make_rope(const Config& config, RopeReach reach, int64_t rotary_dim, bool multiplies_in_fp32) {
  const bool is_local = reach == RopeReach::kSlidingLayers;
  const bool has_own_type = is_local && !config.local_rope_type.empty();
  const std::string& type = has_own_type ? config.local_rope_type : config.rope_type;
  const std::string own_theta_key = is_local ? "local_rope_max_timescale" : "global_rope_max_timescale";
  const double own_theta = is_local ? config.local_rope_max_timescale : config.global_rope_max_timescale;

  RopeSpec rope;
  rope.rotary_dim = rotary_dim;
  rope.multiplies_in_fp32 = multiplies_in_fp32;
  rope.theta = own_theta > 0 ? own_theta : config.rope_max_timescale;
  if (!(rope.theta > 1)) {
    fail_spec(config, own_theta > 0 ? own_theta_key : "rope_max_timescale", "not a rotary base", to_text(rope.theta),
              "a number > 1");
  }
  if (type == "yarn") {
    read_yarn(config, rope);
  } else if (type == "llama3.1") {
    if (config.rope_use_scale) read_llama31(config, rope);
  } else if (type == "linear" || (type == "default" && !has_own_type && config.rope_linear_scaling_factor != 1.0)) {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = config.rope_linear_scaling_factor;
  } else if (type != "default") {
    fail_spec(config, has_own_type ? "local_rope_type" : "rope_type", "unknown kind of rotary embedding", type,
              "default, linear, llama3.1 or yarn");
  }
  return rope;
}

}  // namespace

RopeSpec make_rope_spec(const Config& config, RopeReach reach, bool multiplies_in_fp32) {
  return make_rope(config, reach, rotary_width(config), multiplies_in_fp32);
}

RopeSpec make_latent_rope_spec(const Config& config, bool multiplies_in_fp32) {
  if (config.partial_rotary_factor != 1) {
    fail_spec(config, "partial_rotary_factor", "qk_rope_head_dim is what rotates in latent attention",
              to_text(config.partial_rotary_factor), "1");
  }
  if (config.qk_rope_head_dim % 2 != 0) {
    fail_spec(config, "qk_rope_head_dim", "rotary embeddings turn pairs of channels", to_text(config.qk_rope_head_dim),
              "an even number > 0");
  }
  RopeSpec rope = make_rope(config, RopeReach::kFullLayers, config.qk_rope_head_dim, multiplies_in_fp32);
  rope.is_interleaved = config.rope_interleave;
  return rope;
}

double latent_scale_factor(const Config& config) {
  if (config.rope_type != "yarn" || config.rope_factor <= 1) return 1;
  const double factor = 0.1 * config.mscale * std::log(config.rope_factor) + 1;
  return factor * factor;
}

std::vector<double> rope_frequencies(const RopeSpec& rope) {
  std::vector<double> frequencies(static_cast<size_t>(rope.rotary_dim / 2));
  for (size_t j = 0; j < frequencies.size(); ++j) {
    const double exponent = -2.0 * static_cast<double>(j) / static_cast<double>(rope.rotary_dim);
    frequencies[j] = std::pow(rope.theta, exponent);
    if (rope.scaling == RopeScaling::kLinear) frequencies[j] /= rope.factor;
    if (rope.scaling == RopeScaling::kLlama3) frequencies[j] = llama3_frequency(rope, frequencies[j]);
  }
  if (rope.scaling == RopeScaling::kYarn) apply_yarn(rope, frequencies);
  return frequencies;
}

}  // namespace ballast
