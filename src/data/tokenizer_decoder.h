// SPDX-License-Identifier: Apache-2.0
// The `decoder` of tokenizer.json: how the tokens of ids become a text.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ballast {

class JsonView;

/// Rewrites a list of tokens. Safe to use from several threads at once.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// The steps in order; without a decoder, tokens are joined by spaces.
///
/// Supported: ByteLevel, ByteFallback, Fuse, Strip, Replace (String or Regex), Metaspace, Sequence.
class TokenDecoder {
 public:
  TokenDecoder() = default;
  /// @throws DataError for any other component
  explicit TokenDecoder(const JsonView& description);
  /// ByteLevel alone.
  static TokenDecoder byte_level();

  /// The text of tokens; bytes that form no character become U+FFFD.
  std::string decode(std::vector<std::string> tokens) const;

 private:
  void add(const JsonView& description);

  bool is_absent_ = true;
  std::vector<std::unique_ptr<const DecoderStep>> steps_;
};

}  // namespace ballast
