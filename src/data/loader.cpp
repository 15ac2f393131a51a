// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <string>
#include <utility>

#include "config/config.h"
#include "config/key_table.h"
#include "data/batch_filters.h"
#include "data/document_reader.h"
#include "data/document_shuffle.h"
#include "data/packing.h"
#include "data/prefetch.h"
#include "data/rampup_source.h"
#include "data/recorded.h"
#include "data/row_batches.h"
#include "data/split_files.h"
#include "data/synthetic.h"
#include "data/token_stage.h"
#include "data/tokenizer.h"
#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {
namespace {

/// What differs between training and evaluation.
struct Purpose {
  bool is_training = true;
  int64_t rows = 0;  ///< of a global batch
  bool pads_without_end = false;
};

[[noreturn]] void fail_key(const Config& config, const char* key, const std::string& what, const std::string& need) {
  throw ConfigError({"config: " + config.origin(key) + " " + key, what, "", need, ""});
}

SplitQuery split_query(const Config& config, const Purpose& purpose) {
  SplitQuery query;
  query.path = config.hf_path;
  query.name = config.hf_name;
  query.data_dir = config.hf_data_dir;
  query.files = purpose.is_training ? config.hf_train_files : config.hf_eval_files;
  query.files_key = purpose.is_training ? "hf_train_files" : "hf_eval_files";
  query.split = purpose.is_training ? config.train_split : eval_split_name(config);
  query.takes_single_file = purpose.is_training;
  if (query.path.empty() && query.files.empty()) {
    fail_key(config, "hf_path", "is empty", "the folder of the data set, or " + query.files_key);
  }
  return query;
}

Column text_or_id_column(const Config& config, const Purpose& purpose) {
  const char* key = purpose.is_training ? "train_data_columns" : "eval_data_columns";
  const Config::Strings& names = purpose.is_training ? config.train_data_columns : config.eval_data_columns;
  if (names.size() != 1) {
    fail_key(config, key, "names " + std::to_string(names.size()) + " columns", "exactly one for pre-training");
  }
  return {names.front(), !(purpose.is_training ? config.tokenize_train_data : config.tokenize_eval_data)};
}

/// Padding has no meaning for the model, but its id must have an embedding.
int32_t padding_id(const Tokenizer* tokenizer, int64_t vocab_size) {
  if (tokenizer == nullptr) return 0;
  const int32_t id = tokenizer->pad_id().value_or(tokenizer->unk_id().value_or(0));
  return id >= 0 && id < vocab_size ? id : 0;
}

/// All that decides which batch comes when. A saved position is good for the same text only.
std::string describe(const Config& config, const Purpose& purpose, const Column& column, const Tokenizer* tokenizer) {
  std::string text = "rows=" + std::to_string(purpose.rows);
  const auto add = [&](const char* key, int64_t value) {
    text += std::string(" ") + key + "=" + std::to_string(value);
  };
  add("max_target_length", config.max_target_length);
  if (purpose.is_training) {
    add("enable_data_shuffling", config.enable_data_shuffling);
    add("data_shuffle_seed", config.data_shuffle_seed);
  }
  add("hf_shuffle_buffer_size", config.hf_shuffle_buffer_size);
  add("packing", config.packing);
  add("max_segments_per_seq", config.max_segments_per_seq);
  add("use_truncation", config.use_truncation);
  if (tokenizer != nullptr) {
    add("add_bos", config.add_bos);
    add("add_eos", config.add_eos);
    add("tokenizer_size", tokenizer->vocab_size());
  }
  return text + " column=" + column.name;
}

std::unique_ptr<BatchSource> make_text_source(const Config& config, const Purpose& purpose) {
  if (config.max_target_length < 2) {
    fail_key(config, "max_target_length", "is " + std::to_string(config.max_target_length),
             "2 or more: a token and its target");
  }
  const SplitQuery query = split_query(config, purpose);
  const Column column = text_or_id_column(config, purpose);
  std::shared_ptr<const Tokenizer> tokenizer;
  if (!column.holds_ids) {
    if (config.tokenizer_path.empty()) {
      fail_key(config, "tokenizer_path", "is empty", "a tokenizer for the text of dataset_type=hf");
    }
    tokenizer = load_tokenizer(config.tokenizer_path);
    const bool is_asked_for = config.tokenizer_type != find_key("tokenizer_type")->default_text;
    if (purpose.is_training && is_asked_for && tokenizer->type() != config.tokenizer_type) {
      log_info("config: " + config.origin("tokenizer_type") + " tokenizer_type=" + config.tokenizer_type + ", but " +
               config.tokenizer_path + " holds a tokenizer of type " + std::string(tokenizer->type()) +
               " and is read as one");
    }
  }
  const bool shuffles = purpose.is_training && config.enable_data_shuffling;
  const auto seed = static_cast<uint64_t>(config.data_shuffle_seed);

  auto reader =
      std::make_unique<DocumentReader>(DocumentFiles{find_split_files(query), column, query.split, shuffles, seed});
  auto documents = std::make_unique<DocumentShuffle>(
      std::move(reader),
      ShuffleSettings{shuffles, config.hf_shuffle_buffer_size, seed, purpose.is_training ? config.num_epoch : 1});
  auto pieces = std::make_unique<TokenStage>(
      std::move(documents), TokenSettings{tokenizer, config.add_bos, config.add_eos, config.use_truncation,
                                          config.max_target_length, config.vocab_size, query.split});
  PackingSettings packing;
  packing.row_length = config.max_target_length;
  packing.max_documents = config.packing ? config.max_segments_per_seq : 1;
  auto rows = std::make_unique<Packer>(std::move(pieces), packing);

  RowBatchSettings batches;
  batches.rows = purpose.rows;
  batches.length = config.max_target_length;
  batches.pad_id = padding_id(tokenizer.get(), config.vocab_size);
  batches.rule.across_documents = config.packing_targets_across_documents;
  batches.rule.ignored_target = tokenizer == nullptr ? -1 : tokenizer->bos_id().value_or(-1);
  batches.keeps_rest = !purpose.is_training || purpose.pads_without_end;
  batches.split = query.split;
  batches.settings = describe(config, purpose, column, tokenizer.get());
  return std::make_unique<RowBatches>(std::move(rows), std::move(batches));
}

std::unique_ptr<BatchSource> make_global_source(const Config& config, const Purpose& purpose) {
  if (config.dataset_type == "synthetic") {
    SyntheticSettings settings;
    settings.rows = purpose.rows;
    settings.length = config.max_target_length;
    settings.vocab_size = config.vocab_size;
    settings.max_documents = config.packing ? config.max_segments_per_seq : 1;
    return std::make_unique<SyntheticSource>(settings);
  }
  if (config.dataset_type == "recorded") {
    if (config.recorded_batches_path.empty()) {
      fail_key(config, "recorded_batches_path", "is empty", "a safetensors file");
    }
    return std::make_unique<RecordedSource>(
        RecordedSettings{config.recorded_batches_path, purpose.rows, config.max_target_length, config.vocab_size});
  }
  if (config.dataset_type == "hf") return make_text_source(config, purpose);
  fail_key(config, "dataset_type", "'" + config.dataset_type + "' has no reader", "synthetic, recorded or hf");
}

std::unique_ptr<BatchSource> make_source(const Config& config, const DataShard& shard, const Purpose& purpose) {
  std::unique_ptr<BatchSource> source = make_global_source(config, purpose);
  if (purpose.pads_without_end) {
    source = std::make_unique<EndlessPaddingSource>(std::move(source), purpose.rows, config.max_target_length);
  }
  const bool repeats = purpose.is_training && config.reuse_example_batch > 0;
  if (repeats) source = std::make_unique<RepeatFirstSource>(std::move(source));
  if (const std::optional<BatchRampup> rampup = batch_rampup(config); rampup && purpose.is_training) {
    source = std::make_unique<RampupSource>(std::move(source), *rampup);
  }
  if (shard.count > 1) source = std::make_unique<RowBlockSource>(std::move(source), shard.rank, shard.count);
  if (config.dataset_type == "hf" && !repeats) {
    source = std::make_unique<PrefetchSource>(std::move(source), config.reader_queue_batches);
  }
  return source;
}

}  // namespace

std::unique_ptr<BatchSource> make_train_source(const Config& config, const DataShard& shard) {
  return make_source(config, shard, {true, config.global_batch_size_to_load, config.generate_padding_batch_train});
}

std::unique_ptr<BatchSource> make_eval_source(const Config& config, const DataShard& shard) {
  if (config.eval_interval <= 0) return nullptr;
  return make_source(config, shard, {false, config.global_batch_size_to_load_eval, config.generate_padding_batch_eval});
}

const std::string& eval_split_name(const Config& config) {
  return config.hf_eval_split.empty() ? config.eval_split : config.hf_eval_split;
}

}  // namespace ballast
