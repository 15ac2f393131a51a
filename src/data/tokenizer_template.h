// SPDX-License-Identifier: Apache-2.0
// The `post_processor` of tokenizer.json: the ids it puts around a text.
#pragma once

#include <cstdint>
#include <vector>

namespace ballast {

class JsonView;

/// Ids before and after the text's own. Pairs of texts are not encoded, so `pair` is not read.
///
/// Supported: TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel (which moves offsets only), Sequence.
struct TokenTemplate {
  std::vector<int32_t> before;
  std::vector<int32_t> after;

  /// Puts another post-processor around what is there.
  /// @throws DataError for any other component, or a template without exactly one sequence A
  void wrap(const JsonView& description);
};

}  // namespace ballast
