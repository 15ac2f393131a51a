// SPDX-License-Identifier: Apache-2.0
// Claim: one thread tokenises faster than the Python package tokenizers, for every kind of model, and more threads add
// up.
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/parallel_encode.h"
#include "data/row_file.h"
#include "data/tokenizer.h"
#include "files/parallel.h"
#include "report.h"

namespace ballast {
namespace {

struct Subject {
  const char* name;
  const char* path;
};
// bench/peers/tokenizers_speed.py reads the same files.
constexpr Subject kSubjects[] = {
    {"byte_level_bpe", "examples/data/kjv/tokenizer.json"},
    {"sentencepiece_bpe", "tests/golden/tokenizer/spm_bpe_llama2/tokenizer.json"},
    {"unigram", "tests/golden/tokenizer/unigram_json/tokenizer.json"},
    {"sentencepiece_bpe_model", "tests/golden/tokenizer/spm_bpe_llama2/tokenizer.model"},
    {"unigram_model", "tests/golden/tokenizer/unigram/unigram.model"},
    {"tiktoken", "tests/golden/tokenizer/tiktoken_llama3/tokenizer.model"},
};

std::vector<std::string> read_texts() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator("examples/data/kjv")) {
    if (!entry.path().filename().string().starts_with("train") || !is_parquet_name(entry.path())) continue;
    const auto rows = open_row_file(entry.path(), {.name = "text", .holds_ids = false});
    for (std::optional<Document> document; rows->next(document);) texts.emplace_back(document->text);
  }
  return texts;
}

/// Seconds of a sum of pure arithmetic, in equal parts on several threads: what the machine gives at this moment.
double bare_seconds(size_t num_threads) {
  constexpr uint64_t kSteps = 200'000'000;
  const auto work = [&] {
    uint64_t state = 1;
    for (uint64_t i = 0; i < kSteps / num_threads; ++i) state = state * 6364136223846793005u + 1;
    volatile uint64_t kept = state;
    static_cast<void>(kept);
  };
  return best_time(5,
                   [&] {
                     std::vector<std::thread> threads;
                     for (size_t i = 1; i < num_threads; ++i) threads.emplace_back(work);
                     work();
                     for (std::thread& thread : threads) thread.join();
                   })
      .seconds;
}

nlohmann::ordered_json measure(const Subject& subject, const std::vector<std::string_view>& texts, double megabytes) {
  const auto tokenizer = load_tokenizer(subject.path);
  nlohmann::ordered_json figures;
  size_t num_tokens = 0;
  double one_thread = 0;
  for (size_t threads = 1; threads <= num_processors(); threads *= 2) {
    const BenchTime time = best_time(10, [&] {
      num_tokens = 0;
      for (const auto& ids : encode_all(*tokenizer, texts, true, threads)) num_tokens += ids.size();
    });
    const double rate = megabytes / time.seconds;
    if (threads == 1) {
      one_thread = rate;
      figures["mb_per_second"] = rounded(rate);
      figures["mb_per_cpu_second"] = rounded(megabytes / time.cpu_seconds);
      figures["tokens"] = num_tokens;
    } else {
      const std::string name = std::to_string(threads) + "_threads";
      figures[name] = {{"mb_per_second", rounded(rate)},
                       {"speedup", rounded(rate / one_thread)},
                       {"mb_per_cpu_second", rounded(megabytes / time.cpu_seconds)}};
    }
  }
  return figures;
}

}  // namespace
}  // namespace ballast

/// tokenizer, from the root of the checkout
int main(int argc, char** argv) {
  using namespace ballast;
  BenchReport report(argc, argv);
  const std::vector<std::string> texts = read_texts();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  double bytes = 0;
  for (const std::string& text : texts) bytes += static_cast<double>(text.size());
  report["documents"] = texts.size();
  report["megabytes"] = rounded(bytes / 1e6);
  for (size_t threads = 2; threads <= num_processors(); threads *= 2) {
    report["bare_loop_speedup"][std::to_string(threads) + "_threads"] =
        rounded(bare_seconds(1) / bare_seconds(threads));
  }
  for (const Subject& subject : kSubjects) report[subject.name] = measure(subject, views, bytes / 1e6);
}
