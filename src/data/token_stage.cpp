// SPDX-License-Identifier: Apache-2.0
#include "data/token_stage.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "data/batch.h"
#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {

using nlohmann::json;

TokenStage::TokenStage(std::unique_ptr<Stage<Document>> documents, TokenSettings settings)
    : documents_(std::move(documents)), settings_(std::move(settings)) {
  BALLAST_CHECK(settings_.row_length >= 2, "a row holds a token and its target");
  if (settings_.tokenizer == nullptr || settings_.tokenizer->vocab_size() <= settings_.vocab_size) return;
  throw DataError({"data: tokenizer", "has more tokens than the model's vocabulary",
                   "vocab_size=" + std::to_string(settings_.vocab_size),
                   std::to_string(settings_.tokenizer->vocab_size()) + " or more",
                   "a larger vocab_size or another tokenizer"});
}

std::optional<std::vector<int32_t>> TokenStage::next() {
  std::vector<int32_t> ids = std::exchange(rest_, {});
  std::string first_empty;
  for (int times_met = 0; ids.empty();) {
    std::optional<Document> document = documents_->next();
    if (!document) {
      report_cuts();
      return std::nullopt;
    }
    ids = ids_of(*document);
    check_ids(ids, *document);
    const int64_t num_tokens = static_cast<int64_t>(ids.size());
    if (settings_.truncates && num_tokens > settings_.row_length) count_cut(num_tokens, *document);
    if (!ids.empty()) break;
    // The epochs of the first and the third meeting with a document lie around a whole one, however they are shuffled.
    if (first_empty.empty()) first_empty = document->place();
    if (document->place() == first_empty && ++times_met == 3) {
      throw DataError({"data: split '" + settings_.split + "'", "an epoch holds no token",
                       "empty documents, as " + first_empty, "a document with text", ""});
    }
  }
  if (static_cast<int64_t>(ids.size()) > settings_.row_length) {
    if (!settings_.truncates) rest_.assign(ids.begin() + settings_.row_length - 1, ids.end());
    ids.resize(static_cast<size_t>(settings_.row_length));
  }
  return ids;
}

std::vector<int32_t> TokenStage::ids_of(Document& document) const {
  if (settings_.tokenizer == nullptr) return std::move(document.ids);
  // The post-processor's own BOS and EOS would depend on the tokenizer's file; these keys are the user's.
  std::vector<int32_t> ids = settings_.tokenizer->encode(document.text, /*add_special_tokens=*/false);
  add_bos_and_eos(ids, *settings_.tokenizer, settings_.add_bos, settings_.add_eos);
  return ids;
}

void TokenStage::check_ids(const std::vector<int32_t>& ids, const Document& document) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < settings_.vocab_size) continue;
    fail_token_id(document.place() + " position " + std::to_string(i), ids[i], settings_.vocab_size);
  }
}

void TokenStage::count_cut(int64_t num_tokens, const Document& document) {
  const int64_t num_lost = num_tokens - settings_.row_length;
  ++cut_documents_;
  cut_tokens_ += num_lost;
  warn_once("use_truncation " + settings_.split,
            document.place() + ": the end is left out, " + std::to_string(num_lost) + " of " +
                std::to_string(num_tokens) + " tokens, for max_target_length=" + std::to_string(settings_.row_length) +
                "; so is that of every longer document (use_truncation=false keeps them)");
}

void TokenStage::report_cuts() {
  if (cut_documents_ > 0 && !has_told_cuts_) {
    log_info("data: split '" + settings_.split + "': ends left out by use_truncation: " + std::to_string(cut_tokens_) +
             " tokens of " + std::to_string(cut_documents_) + " documents");
    has_told_cuts_ = true;
  }
}

void TokenStage::reset() {
  documents_->reset();
  rest_.clear();
  cut_documents_ = cut_tokens_ = 0;
}

json TokenStage::state() const {
  return {{"documents", documents_->state()}, {"rest", rest_}};
}

void TokenStage::load_state(const json& state) {
  documents_->load_state(state.at("documents"));
  rest_ = state.at("rest").get<std::vector<int32_t>>();
  cut_documents_ = cut_tokens_ = 0;
}

}  // namespace ballast
