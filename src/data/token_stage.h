// SPDX-License-Identifier: Apache-2.0
// Third stage of the text pipeline: documents become pieces of token ids that fit a row.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/row_file.h"
#include "data/stage.h"
#include "data/tokenizer.h"

namespace ballast {

struct TokenSettings {
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null: documents hold ids, which are taken as they are
  bool add_bos = true;                         ///< where the tokenizer has the token and the text does not give it
  bool add_eos = true;
  bool truncates = true;   ///< use_truncation: a document longer than a row loses its end
  int64_t row_length = 0;  ///< max_target_length, >= 2
  int64_t vocab_size = 0;
  std::string split;  ///< for messages
};

/// Tokenises, adds BOS and EOS exactly once, and cuts to the row length. Without truncation a long document gives
/// several pieces; each begins with the last token of the one before, so that every token but the first is a target
/// exactly once. Documents without tokens are left out. What truncation costs is told: a warning at the first document
/// that loses its end, and the sum when the data end for the first time.
class TokenStage : public Stage<std::vector<int32_t>> {
 public:
  /// @throws DataError when the tokenizer has ids that vocab_size does not cover
  TokenStage(std::unique_ptr<Stage<Document>> documents, TokenSettings settings);

  /// @throws DataError with file, row and position for an id outside the vocabulary; when a whole epoch holds no token,
  /// so that a great num_epoch does not spin over it
  std::optional<std::vector<int32_t>> next() override;
  void reset() override;
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  std::vector<int32_t> ids_of(Document& document) const;
  void check_ids(const std::vector<int32_t>& ids, const Document& document) const;
  void count_cut(int64_t num_tokens, const Document& document);
  void report_cuts();

  std::unique_ptr<Stage<Document>> documents_;
  TokenSettings settings_;
  std::vector<int32_t> rest_;  // of a long document, the repeated token first
  int64_t cut_documents_ = 0;  // lost their ends since the start, the last reset() or the last load_state()
  int64_t cut_tokens_ = 0;
  bool has_told_cuts_ = false;
};

}  // namespace ballast
