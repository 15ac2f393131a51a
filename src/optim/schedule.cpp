// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "config/config.h"

namespace ballast {
namespace {

/// 1 at progress 0, 0 at progress 1.
double falling_weight(DecayStyle style, double progress) {
  if (style == DecayStyle::kLinear) return 1 - progress;
  return (1 + std::cos(std::numbers::pi * progress)) / 2;
}

/// Rate at step `index` of a part of `length` steps that ends at the final rate; a part of one step is its own end.
double rate_in_decay(const ScheduleSpec& spec, DecayStyle style, int64_t index, int64_t length) {
  const double progress = length > 1 ? static_cast<double>(index) / static_cast<double>(length - 1) : 1.0;
  const double weight = falling_weight(style, progress);
  const double final_rate = spec.learning_rate * spec.learning_rate_final_fraction;
  return spec.learning_rate * weight + final_rate * (1 - weight);
}

int64_t whole_steps(int64_t steps, double fraction) {
  return static_cast<int64_t>(static_cast<double>(steps) * fraction);
}

double olmo_rate_at(const ScheduleSpec& spec, int64_t step) {
  const double now = static_cast<double>(step + 1), end = static_cast<double>(spec.schedule_steps);
  const double warmup = std::round(end * spec.warmup_steps_fraction);
  if (now < warmup) return spec.learning_rate * now / warmup;
  const double final_rate = spec.learning_rate * spec.learning_rate_final_fraction;
  if (now >= end) return final_rate;
  const double weight = falling_weight(DecayStyle::kCosine, (now - warmup) / (end - warmup));
  return final_rate + (spec.learning_rate - final_rate) * weight;
}

ScheduleKind schedule_kind(const std::string& name) {
  if (name == "wsd") return ScheduleKind::kWsd;
  return name == "olmo_cosine" ? ScheduleKind::kOlmoCosine : ScheduleKind::kCosine;
}

}  // namespace

ScheduleSpec schedule_spec(const Config& config) {
  ScheduleSpec spec;
  spec.kind = schedule_kind(config.lr_schedule_type);
  spec.learning_rate = config.learning_rate;
  spec.schedule_steps = config.learning_rate_schedule_steps;
  spec.warmup_steps_fraction = config.warmup_steps_fraction;
  spec.learning_rate_final_fraction = config.learning_rate_final_fraction;
  spec.wsd_decay_steps_fraction = config.wsd_decay_steps_fraction;
  spec.wsd_decay_style = config.wsd_decay_style == "cosine" ? DecayStyle::kCosine : DecayStyle::kLinear;
  spec.warmup_step_offset = config.warmup_step_offset;
  return spec;
}

double learning_rate_at(const ScheduleSpec& spec, int64_t step) {
  if (spec.kind == ScheduleKind::kOlmoCosine) return olmo_rate_at(spec, step);
  if (step >= spec.schedule_steps) return 0;
  const int64_t warmup_steps = whole_steps(spec.schedule_steps, spec.warmup_steps_fraction);
  if (step < warmup_steps) {
    const double position = static_cast<double>(step + spec.warmup_step_offset);
    return spec.learning_rate * std::min(1.0, position / static_cast<double>(warmup_steps));
  }
  if (spec.kind == ScheduleKind::kCosine) {
    return rate_in_decay(spec, DecayStyle::kCosine, step - warmup_steps, spec.schedule_steps - warmup_steps);
  }
  const int64_t decay_steps = whole_steps(spec.schedule_steps, spec.wsd_decay_steps_fraction);
  const int64_t decay_start = spec.schedule_steps - decay_steps;
  if (step < decay_start) return spec.learning_rate;
  return rate_in_decay(spec, spec.wsd_decay_style, step - decay_start, decay_steps);
}

}  // namespace ballast
