// SPDX-License-Identifier: Apache-2.0
// The `normalizer` of tokenizer.json: what happens to a text before it is cut.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ballast {

class JsonView;

/// One rewriting of a text. Safe to use from several threads at once.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  /// Puts `text` (valid UTF-8) into its normal form.
  virtual void apply(std::string& text) const = 0;
};

/// The steps in order; none for a missing or null normalizer.
///
/// Supported: NFC, NFD, NFKC, NFKD (Unicode of utf8proc), Lowercase (full mapping of each character by itself),
/// Replace (String or Regex), Prepend, Strip, StripAccents, Nmt, Precompiled, Sequence.
class Normalizer {
 public:
  Normalizer() = default;
  /// @throws DataError for any other component
  explicit Normalizer(const JsonView& description);

  bool is_identity() const { return steps_.empty(); }
  void apply(std::string& text) const;

 private:
  void add(const JsonView& description);

  std::vector<std::unique_ptr<const NormalizerStep>> steps_;
};

}  // namespace ballast
