// SPDX-License-Identifier: Apache-2.0
// A configured model with a batch, to take training steps on.
#pragma once

#include "config/config.h"
#include "train/setup.h"

namespace ballast {

inline HostBatch random_batch(int64_t rows, int64_t length, int64_t vocab_size) {
  HostBatch batch;
  batch.resize(rows, length);
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    batch.inputs[i] = static_cast<int32_t>((i * 7919) % static_cast<size_t>(vocab_size));
    batch.targets[i] = static_cast<int32_t>((i * 104729 + 1) % static_cast<size_t>(vocab_size));
    batch.inputs_position[i] = static_cast<int32_t>(i % static_cast<size_t>(length));
    batch.inputs_segmentation[i] = batch.targets_segmentation[i] = 1;
  }
  return batch;
}

/// A model and a batch to take steps on.
class Steps {
 public:
  explicit Steps(const Config& config)
      : decoder_(make_decoder(config, world_, at::Device(at::kCPU))),
        step_(*decoder_, world_, step_options(config)),
        batch_(random_batch(config.global_batch_size_to_load, config.max_target_length, config.vocab_size)) {
    set_first_weights(*decoder_, config);
  }
  const DecoderSpec& spec() const { return decoder_->spec(); }
  /// A whole step.
  void operator()() {
    accumulate();
    step_.update(numbers_);
  }
  /// Its forward and backward passes; update or forget() must follow.
  void accumulate() { numbers_ = step_.accumulate(batch_, index_++); }
  /// Gradients go, weights stay.
  void forget() { step_.skip(numbers_); }

 private:
  std::shared_ptr<const World> world_ = single_rank_world();
  std::unique_ptr<Decoder> decoder_;
  TrainStep step_;
  HostBatch batch_;
  int64_t index_ = 1;
  StepNumbers numbers_;
};

}  // namespace ballast
