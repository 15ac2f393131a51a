// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "data/random.h"
#include "data/token_rows.h"

namespace ballast {

SyntheticSource::SyntheticSource(const SyntheticSettings& settings) {
  DataRandom token_random(DataStream::kSyntheticTokens, {0});
  DataRandom border_random(DataStream::kSyntheticBorders, {0});
  batch_.resize(settings.rows, settings.length);
  std::vector<int32_t> tokens(static_cast<size_t>(settings.length + 1));
  std::vector<int32_t> segments(tokens.size());
  for (int64_t row = 0; row < settings.rows; ++row) {
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(token_random.below(static_cast<uint64_t>(settings.vocab_size)));
    }
    std::vector<int32_t> begins_document(segments.size(), 0);
    begins_document[0] = 1;
    if (settings.max_documents > 1) {
      for (uint64_t left = border_random.below(static_cast<uint64_t>(settings.max_documents)); left > 0; --left) {
        begins_document[border_random.below(static_cast<uint64_t>(settings.length))] = 1;
      }
    }
    std::partial_sum(begins_document.begin(), begins_document.end(), segments.begin());
    fill_row_from_tokens(batch_, row, tokens, segments);
  }
}

nlohmann::json SyntheticSource::state() const {
  return nlohmann::json::object();
}

void SyntheticSource::load_state(const nlohmann::json&) {}

}  // namespace ballast
