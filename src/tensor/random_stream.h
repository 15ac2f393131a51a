// SPDX-License-Identifier: Apache-2.0
// Named random streams: a stream depends on its key alone, never on what was drawn before.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/Generator.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace ballast {

/// 64-bit key of the stream (seed, purpose, numbers...), e.g. (seed, "dropout", {step, micro_batch, layer}).
/// FNV-1a over the bytes with a SplitMix64 finish: equal on every machine.
uint64_t stream_key(uint64_t seed, std::string_view purpose, std::initializer_list<uint64_t> numbers = {});

/// A CPU generator that starts at `key`.
at::Generator cpu_stream(uint64_t key);

}  // namespace ballast
