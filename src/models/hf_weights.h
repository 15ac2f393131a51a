// SPDX-License-Identifier: Apache-2.0
// Weights of a Hugging Face folder into the units of a decoder.
#pragma once

#include <string>

#include "models/decoder.h"
#include "models/hf_tensors.h"

namespace ballast {

/// Compares the tensors of a folder with those of `decoder`. Tensors without a parameter are an error too, except those
/// that carry no weight of ours (rotary tables, a head that is tied, MTP modules), which one info line lists.
/// @throws CheckpointError listing missing, unexpected and misshaped tensors
void check_hf_weights(const Decoder& decoder, const HfTensors& weights, const std::string& folder);

/// Reads every parameter of `decoder` from `folder` (shards of model.safetensors.index.json, else model.safetensors;
/// `weights_file` names another file). Any floating type is read; values land in the fp32 masters.
/// @throws CheckpointError as check_hf_weights()
void load_hf_weights(Decoder& decoder, const std::string& folder, const std::string& weights_file = {});

}  // namespace ballast
