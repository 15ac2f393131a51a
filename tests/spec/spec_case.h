// SPDX-License-Identifier: Apache-2.0
// Decoder specs from key=value pairs, and the error line where there is none.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/resolve.h"
#include "errors/errors.h"
#include "spec/decoder_spec.h"

namespace ballast::testing {

inline DecoderSpec spec_of(const std::vector<std::string>& pairs) {
  return make_decoder_spec(config_from_pairs(pairs));
}

inline std::string spec_error_of(const std::vector<std::string>& pairs) {
  const Config config = config_from_pairs(pairs);
  try {
    make_decoder_spec(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

/// A decoder of 4 layers, D 32, 4 query heads on 2 key/value heads of width 8, and `more` pairs.
inline std::vector<std::string> small_pairs(const std::vector<std::string>& more) {
  std::vector<std::string> pairs = {"base_emb_dim=32",     "base_num_query_heads=4",
                                    "base_num_kv_heads=2", "base_num_decoder_layers=4",
                                    "base_mlp_dim=48",     "head_dim=8",
                                    "vocab_size=100"};
  pairs.insert(pairs.end(), more.begin(), more.end());
  return pairs;
}

inline Config config_of_small() {
  return config_from_pairs(small_pairs({}));
}

inline DecoderSpec small_spec(const std::vector<std::string>& more) {
  return spec_of(small_pairs(more));
}
inline std::string small_error(const std::vector<std::string>& more) {
  return spec_error_of(small_pairs(more));
}

inline const AttentionSpec& attention_of(const DecoderSpec& spec, size_t layer) {
  return std::get<AttentionSpec>(spec.layers.at(layer).mixer);
}

inline const DenseFfnSpec& ffn_of(const DecoderSpec& spec, size_t layer) {
  return std::get<DenseFfnSpec>(spec.layers.at(layer).ffn);
}

inline const MoeFfnSpec& experts_of(const DecoderSpec& spec, size_t layer) {
  return std::get<MoeFfnSpec>(spec.layers.at(layer).ffn);
}

inline std::vector<int64_t> windows_of(const DecoderSpec& spec) {
  std::vector<int64_t> windows;
  for (size_t i = 0; i < spec.layers.size(); ++i) windows.push_back(attention_of(spec, i).sliding_window);
  return windows;
}

}  // namespace ballast::testing
