// SPDX-License-Identifier: Apache-2.0
// Rank files of tiktoken: one token a line, its bytes in base64 and its rank.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace ballast {

/// Whether a file that starts like this is a rank file: its first line is base64, a space and a number.
bool looks_like_tiktoken(std::string_view start);

/// Reads a rank file. A rank is the token's id; every id up to the largest must be a rank or a special token, and every
/// single byte must have one.
///
/// A `special_tokens.json` beside the file gives `special_tokens` (an object of text: id), and if it likes `pat_str`
/// (the expression that cuts a text into words, in Rust's syntax), `bos`, `eos` and `pad` (texts of special tokens).
/// Without that file the expression and the 256 special tokens are Llama 3's, their ids following the ranks. Special
/// tokens are recognised in texts; the template puts BOS in front.
///
/// @throws DataError naming the file and the line or the JSON path
/// @source meta-llama/llama-models models/llama3/tokenizer.py; openai/tiktoken load.py
std::unique_ptr<Tokenizer> read_tiktoken(const std::string& file);

}  // namespace ballast
