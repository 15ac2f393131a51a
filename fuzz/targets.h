// SPDX-License-Identifier: Apache-2.0
// One function a parser: takes any bytes, and either reads them or throws the error of that parser. Any other exception
// leaves the function, and a broken promise (an id outside the vocabulary ...) is an InternalError.
#pragma once

#include <string_view>

namespace ballast::fuzz {

void yaml_values(std::string_view input);
void tokenizer_json(std::string_view input);
void sentencepiece_model(std::string_view input);
void tiktoken_ranks(std::string_view input);
void safetensors_header(std::string_view input);
void checkpoint_manifest(std::string_view input);
void json_lines(std::string_view input);
void expert_load(std::string_view input);

}  // namespace ballast::fuzz
