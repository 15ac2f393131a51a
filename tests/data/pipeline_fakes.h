// SPDX-License-Identifier: Apache-2.0
// Sources, a tokenizer and comparisons for the tests of the data pipeline.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/packing.h"
#include "data/row_file.h"
#include "data/stage.h"
#include "data/tokenizer.h"

namespace ballast {

using Ids = std::vector<int32_t>;

/// Items from a list; its state is the place in the list.
template <class Item>
class ListStage : public Stage<Item> {
 public:
  explicit ListStage(std::vector<Item> items) : items_(std::move(items)) {}
  std::optional<Item> next() override {
    return place_ < items_.size() ? std::optional<Item>(items_[place_++]) : std::nullopt;
  }
  void reset() override { place_ = 0; }
  nlohmann::json state() const override { return place_; }
  void load_state(const nlohmann::json& state) override { place_ = state; }

 private:
  std::vector<Item> items_;
  size_t place_ = 0;
};

template <class Item>
std::unique_ptr<Stage<Item>> list_stage(std::vector<Item> items) {
  return std::make_unique<ListStage<Item>>(std::move(items));
}

inline Document text_document(const std::string& text, int64_t row = 0) {
  const auto owner = std::make_shared<const std::string>(text);
  return {.text = *owner, .ids = {}, .owner = owner, .file = std::make_shared<const std::string>("list"), .row = row};
}

/// One id a byte, from 10 on. '<' stands for the BOS token written out, '>' for EOS.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(int32_t pad = 0) : pad_(pad) {}
  std::vector<int32_t> encode(std::string_view text, bool) const override {
    Ids ids;
    for (const unsigned char c : text) ids.push_back(c == '<' ? 1 : c == '>' ? 2 : 10 + c);
    return ids;
  }
  std::string decode(std::span<const int32_t>, bool) const override { return ""; }
  int64_t vocab_size() const override { return 266; }
  std::optional<int32_t> token_to_id(std::string_view) const override { return std::nullopt; }
  std::optional<int32_t> bos_id() const override { return 1; }
  std::optional<int32_t> eos_id() const override { return 2; }
  std::optional<int32_t> pad_id() const override { return pad_; }
  std::optional<int32_t> unk_id() const override { return std::nullopt; }
  std::string_view type() const override { return "huggingface"; }

 private:
  int32_t pad_;
};

inline std::string show(const Ids& ids) {
  return nlohmann::json(ids).dump();
}
inline std::string show(const Document& document) {
  return std::string(document.text) + show(document.ids);
}
inline std::string show(const PackedRow& row) {
  return show(row.tokens) + nlohmann::json(row.document_lengths).dump();
}
inline std::string show(const HostBatch& batch) {
  return show(batch.inputs) + show(batch.inputs_segmentation) + show(batch.inputs_position) + show(batch.targets) +
         show(batch.targets_segmentation) + show(batch.targets_position);
}

/// All that is left in a stage, item by item.
template <class Item>
std::vector<std::string> drain(Stage<Item>& stage, size_t most = SIZE_MAX) {
  std::vector<std::string> shown;
  while (shown.size() < most) {
    const std::optional<Item> item = stage.next();
    if (!item) break;
    shown.push_back(show(*item));
  }
  return shown;
}

/// For k = 0, stride, ...: the state after k items, through its text, continues in a new stage exactly where the first
/// one would. The state is also loaded into a stage that has already moved, and reset() must give the whole again.
template <class Make>
void expect_exact_resume(const Make& make, size_t most = SIZE_MAX, size_t stride = 1) {
  auto whole_stage = make();
  const std::vector<std::string> whole = drain(*whole_stage, most);
  ASSERT_GT(whole.size(), 1u);
  whole_stage->reset();
  EXPECT_EQ(drain(*whole_stage, most), whole) << "after reset()";
  for (size_t k = 0; k <= whole.size(); k += stride) {
    auto stage = make();
    drain(*stage, k);
    const std::string state = stage->state().dump();
    auto resumed = make();
    resumed->next();
    resumed->load_state(nlohmann::json::parse(state));
    const std::vector<std::string> expected(whole.begin() + static_cast<std::ptrdiff_t>(k), whole.end());
    EXPECT_EQ(drain(*resumed, whole.size() - k), expected) << "from item " << k;
    if (most == SIZE_MAX) {
      EXPECT_FALSE(resumed->next().has_value()) << "from item " << k;
    }
    EXPECT_EQ(drain(*stage, whole.size() - k), expected) << "state() moved the stage at item " << k;
  }
}

}  // namespace ballast
