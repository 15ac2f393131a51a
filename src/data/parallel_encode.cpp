// SPDX-License-Identifier: Apache-2.0
#include "data/parallel_encode.h"

#include "files/parallel.h"

namespace ballast {
namespace {

/// Texts are handed out in runs of about this size, so that short ones do not fight for the counter.
constexpr size_t kRunBytes = size_t{64} << 10;

/// Ends of the runs of texts.
std::vector<size_t> cut_runs(std::span<const std::string_view> texts) {
  std::vector<size_t> ends;
  size_t bytes = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    bytes += texts[i].size();
    if (bytes < kRunBytes && i + 1 < texts.size()) continue;
    ends.push_back(i + 1);
    bytes = 0;
  }
  return ends;
}

}  // namespace

std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                             bool add_special_tokens, size_t num_threads) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  const std::vector<size_t> run_ends = cut_runs(texts);
  const auto encode_run = [&](size_t run) {
    for (size_t i = run == 0 ? 0 : run_ends[run - 1]; i < run_ends[run]; ++i) {
      ids[i] = tokenizer.encode(texts[i], add_special_tokens);
    }
  };
  run_parallel(run_ends.size(), encode_run, num_threads);
  return ids;
}

}  // namespace ballast
