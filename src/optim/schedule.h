// SPDX-License-Identifier: Apache-2.0
// The learning rate as a pure function of the global step.
#pragma once

#include <cstdint>

namespace ballast {

struct Config;

enum class ScheduleKind { kCosine, kWsd, kOlmoCosine };
enum class DecayStyle { kLinear, kCosine };

/// The schedule keys of a configuration, `learning_rate_schedule_steps` resolved.
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kCosine;
  double learning_rate = 0;                 ///< peak
  int64_t schedule_steps = 0;               ///< the rate is 0 from this step on
  double warmup_steps_fraction = 0;         ///< of schedule_steps, in [0, 1]
  double learning_rate_final_fraction = 0;  ///< last rate of the schedule over the peak
  double wsd_decay_steps_fraction = 0;      ///< of schedule_steps, in [0, 1]; wsd only
  DecayStyle wsd_decay_style = DecayStyle::kLinear;
  int64_t warmup_step_offset = 0;  ///< added to the step inside the warmup
};

/// The schedule of a resolved configuration.
ScheduleSpec schedule_spec(const Config& config);

/// Learning rate of `step` (0-based) with w warmup steps, peak P and final rate F:
///
///   step < w                 P * min(1, (step + warmup_step_offset) / w)
///   cosine, until the end    F + (P - F) * (1 + cos(pi q)) / 2,  q = (step - w) / (steps - w - 1)
///   wsd, until the end       P, then over the last d steps from P to F (linear or cosine), F on the last one
///   afterwards               0
///
/// olmo_cosine is OLMo-core's form: with n = step + 1 and w the rounded product, P * n / w before n = w, F from
/// n = steps on (0 is never reached), and F + (P - F) * (1 + cos(pi (n - w) / (steps - w))) / 2 between.
///
/// w and d are the whole part of the double product of schedule_steps and the fraction, as MaxText computes them:
/// 100 steps at 0.29 give 28, because the product is 28.999... A decay or cosine part of one step sits at F.
/// @source AI-Hypercomputer/maxtext src/maxtext/utils/maxtext_utils.py (create_learning_rate_schedule);
///         allenai/OLMo-core src/olmo_core/optim/scheduler.py (CosWithWarmup)
double learning_rate_at(const ScheduleSpec& spec, int64_t step);

}  // namespace ballast
