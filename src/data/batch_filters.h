// SPDX-License-Identifier: Apache-2.0
// Small sources around another source.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "data/batch.h"

namespace ballast {

/// Block `rank` of `count` equal, contiguous blocks of each batch's rows.
class RowBlockSource : public BatchSource {
 public:
  RowBlockSource(std::unique_ptr<BatchSource> source, int64_t rank, int64_t count);
  std::optional<HostBatch> next() override;
  void reset() override { source_->reset(); }
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  std::unique_ptr<BatchSource> source_;
  int64_t rank_;
  int64_t count_;
};

/// The first batch, over and over (reuse_example_batch). Its state is empty: a new source makes the same batch.
class RepeatFirstSource : public BatchSource {
 public:
  explicit RepeatFirstSource(std::unique_ptr<BatchSource> source);
  std::optional<HostBatch> next() override;
  void reset() override {}
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  std::unique_ptr<BatchSource> source_;
  std::optional<HostBatch> first_;
};

/// After the last batch, batches of nothing but padding without end (generate_padding_batch_train and ..._eval).
class EndlessPaddingSource : public BatchSource {
 public:
  EndlessPaddingSource(std::unique_ptr<BatchSource> source, int64_t rows, int64_t length);
  std::optional<HostBatch> next() override;
  void reset() override { source_->reset(); }
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  std::unique_ptr<BatchSource> source_;
  HostBatch padding_;
};

}  // namespace ballast
