// SPDX-License-Identifier: Apache-2.0
// The alias table: which field of a Hugging Face config.json sets which of our keys, family by family.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ballast {

enum class HfType { kInteger, kNumber, kBoolean };

/// One key and the field it is read from. Fields whose meaning takes more than a copy (rotary embedding, windows)
/// are listed by HfFamily::rule_fields.
struct HfField {
  std::string key;
  std::vector<std::string> spellings;  ///< the first one present wins
  HfType type = HfType::kInteger;
  std::string class_default;    ///< value where no spelling is present; empty: derived from other fields
  std::string null_value = {};  ///< value where the first spelling is there and null; empty: as if it were absent
};

/// Which layers attend through a window where layer_types does not say so.
enum class HfWindow {
  kNone,        ///< the family has no window
  kEveryLayer,  ///< all layers, unless sliding_window is null
  kIfUsed,      ///< all layers, if use_sliding_window
  kLateLayers,  ///< from max_window_layers on, if use_sliding_window
  kPattern,     ///< the pattern of our decoder_block
};

/// How groups of experts are said.
enum class HfGroups {
  kNone,     ///< the family has none
  kIfAsked,  ///< n_group and topk_group, if topk_method is group_limited_greedy (DeepSeek V2)
  kAlways,   ///< n_group and topk_group (DeepSeek V3)
};

struct HfFamily {
  std::string model_type;
  std::string architecture;                                  ///< class of transformers that config.json names
  std::vector<std::pair<std::string, std::string>> implied;  ///< keys and values that the family fixes
  std::vector<HfField> fields;
  double rope_theta = 10000.0;           ///< where config.json gives none
  bool has_rope_per_layer_type = false;  ///< rope_parameters may hold one entry a kind of attention
  HfWindow window = HfWindow::kNone;
  std::vector<std::string> rule_fields;          ///< further fields that are read
  int64_t class_window = 4096;                   ///< sliding_window where the field is absent; 0: null
  std::string window_pattern = {};               ///< kPattern in words
  std::string class_rope = {};                   ///< JSON: rope_parameters where no rotary field is there
  std::vector<std::string> aliases = {};         ///< further model types that are read as this one
  std::vector<std::string> ignored_fields = {};  ///< without a meaning in this family
  bool attends_by_latent = false;                ///< mscale_all_dim of the rotary fields scales the softmax
  HfGroups groups = HfGroups::kNone;
};

/// A field that may hold no value but `accepted`, because another one changes the computation.
struct HfRejection {
  std::string field;
  std::vector<std::string> accepted;  ///< JSON texts; null and absence are always accepted, and nothing else if empty
  std::string need;                   ///< what the error line asks for
};

/// All families, in the order of the documentation.
const std::vector<HfFamily>& hf_families();

const std::vector<HfRejection>& hf_rejections();

/// Fields that say how a model was trained. Ours come from the run's configuration; one info line names them.
const std::vector<std::string>& hf_recipe_fields();

/// Fields without a meaning for the computation.
const std::vector<std::string>& hf_ignored_fields();

/// The tables as Markdown, the way docs/hf_config.md holds them.
std::string hf_alias_markdown();

}  // namespace ballast
