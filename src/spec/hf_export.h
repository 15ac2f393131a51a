// SPDX-License-Identifier: Apache-2.0
// A configuration as the config.json of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ballast {

struct Config;

/// Fields of a config.json that do not follow from the architecture. An id that is not known is written as null.
struct HfExport {
  std::string dtype;  ///< element type of the weights beside it: "float32"
  std::optional<int64_t> bos_token_id = std::nullopt;
  std::optional<int64_t> eos_token_id = std::nullopt;
  std::optional<int64_t> pad_token_id = std::nullopt;
};

/// The config.json of the model that `config` describes, in the spelling of transformers 5. The tables of hf_alias.h
/// say which key goes to which field. A family is taken only if its fields, read back, describe the same decoder; the
/// family of the same decoder_block is tried first.
/// @throws ConfigError naming the key that no family can say
std::string hf_config_text(const Config& config, const HfExport& more);

}  // namespace ballast
