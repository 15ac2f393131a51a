// SPDX-License-Identifier: Apache-2.0
// What values are allowed: each by the rule of its key, and several together.
#pragma once

#include <string>

#include "config/config.h"
#include "config/key_table.h"
#include "config/layer.h"

namespace ballast {

/// "config: configs/base.yml:41 steps", the place part of an error line about a value.
std::string place_of(const std::string& origin, std::string_view key);

/// What a key accepts in this version, in words: "adamw", "at least 1 or -1"; empty: every value of its kind.
std::string accepted_values(const KeyInfo& key);

/// The typed value of a setting: right kind, within the key's rule, words of a choice in their listed spelling.
/// @throws ConfigError with the setting's origin
TypedValue checked_value(const KeyInfo& key, const Setting& setting);

/// One line for a value other than the default of a key that has no effect.
void warn_if_without_effect(const KeyInfo& key, const Setting& setting);

/// Values that contradict one another. With `needs_data` also those that only a training or evaluation run needs: data
/// set, evaluation, and the remarks on its values.
/// @throws ConfigError naming the keys
void check_together(const Config& config, bool needs_data);

}  // namespace ballast
