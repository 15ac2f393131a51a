// SPDX-License-Identifier: Apache-2.0
#include "config/checks.h"
#include "config/key_table.h"
#include "config/value.h"
#include "config/yaml_file.h"
#include "errors/errors.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"

namespace ballast::fuzz {
namespace {

/// A value that was read must come back from its own text.
void check_round_trip(const Value& value) {
  for (const ValueKind kind : {ValueKind::kBool, ValueKind::kInt, ValueKind::kDouble, ValueKind::kInts}) {
    const std::optional<TypedValue> typed = to_typed(value, kind);
    if (!typed) continue;
    const std::optional<Value> again = parse_flow(to_text(*typed));
    BALLAST_CHECK(again && to_typed(*again, kind) == typed, to_text(*typed));
  }
  to_typed(value, ValueKind::kString);
  to_typed(value, ValueKind::kStrings);
  to_typed(value, ValueKind::kAny);
  to_text(value);
}

void read_as_file(std::string_view input) {
  const InputFile file("input.yml", input);
  try {
    for (const auto& [name, setting] : read_config_file(file.path(), /*configs_folder=*/{})) {
      check_round_trip(setting.value);
      if (const KeyInfo* key = find_key(name)) checked_value(*key, setting);
    }
  } catch (const ConfigError&) {
  }
}

}  // namespace

/// The bytes as a configuration file, and as the value of a key on the command line.
void yaml_values(std::string_view input) {
  read_as_file(input);
  check_round_trip(parse_scalar(input));
  if (const std::optional<Value> value = parse_flow(input)) check_round_trip(*value);
}

}  // namespace ballast::fuzz
