// SPDX-License-Identifier: Apache-2.0
// Claim: in a model of many narrow layers the time goes into products, loss and optimizer, not into small operations.
//
// The model: deepseek3-tiny, 61 layers of width 64 with latent attention and 16 experts, vocabulary 129280, one row of
// 256 tokens, fp32, no rematerialisation. One thread, so that the parts of a step add up to it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <map>

#include "config/resolve.h"
#include "ops/cross_entropy.h"
#include "report.h"
#include "steps.h"
#include "tensor/heap.h"

namespace {

using namespace ballast;

/// Time of operations by name while it lives, without that of the operations they call.
class OperationTimes {
 public:
  OperationTimes() {
    seconds_.clear();
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(
                                        [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
                                          open_.push_back({Clock::now(), 0});
                                          return nullptr;
                                        },
                                        [](const at::RecordFunction& call, at::ObserverContext*) {
                                          const Open own = open_.back();
                                          open_.pop_back();
                                          const double whole =
                                              std::chrono::duration<double>(Clock::now() - own.start).count();
                                          if (!open_.empty()) open_.back().inner += whole;
                                          seconds_[call.name()] += whole - own.inner;
                                        })
                                        .scopes({at::RecordScope::FUNCTION}));
  }
  ~OperationTimes() { at::removeCallback(handle_); }
  OperationTimes(const OperationTimes&) = delete;
  OperationTimes& operator=(const OperationTimes&) = delete;
  static const std::map<std::string, double>& seconds() { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    Clock::time_point start;
    double inner;
  };
  static inline std::vector<Open> open_;
  static inline std::map<std::string, double> seconds_;
  at::CallbackHandle handle_;
};

bool is_product(const std::string& name) {
  for (const char* part : {"aten::mm", "aten::addmm", "aten::bmm", "scaled_dot_product"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

/// small_layers_step [--operations] [key=value ...]
int main(int argc, char** argv) {
  keep_freed_memory();  // as `ballast train` does
  at::set_num_threads(1);
  PeakMemory::installed();
  std::vector<std::string> keys = {"model_name=deepseek3-tiny",
                                   "max_target_length=256",
                                   "per_device_batch_size=1",
                                   "dtype=float32",
                                   "weight_dtype=float32",
                                   "dataset_type=synthetic",
                                   "hardware=cpu",
                                   "enable_checkpointing=false",
                                   "remat_policy=none",
                                   "load_balance_loss_weight=0.0001",
                                   "routed_bias_update_rate=0.001"};
  keys.insert(keys.end(), argv + 1, argv + argc);
  const bool lists_operations = std::erase(keys, "--operations") > 0;
  const Config config = config_from_pairs(keys);
  Steps steps(config);
  BenchReport report(argc, argv);
  steps();
  const BenchTime step = best_time(5, [&] { steps(); });
  BenchTime passes;
  for (int round = 0; round < 5; ++round) {
    keep_best(passes, lap([&] { steps.accumulate(); }));
    steps.forget();
  }
  const int64_t tokens = config.max_target_length;
  const at::Tensor rows = at::randn({tokens, config.emb_dim}).set_requires_grad(true);
  const at::Tensor head = at::randn({config.vocab_size, config.emb_dim}).mul_(0.1).set_requires_grad(true);
  const at::Tensor target = at::arange(tokens), weight = at::full({tokens}, 1.0 / static_cast<double>(tokens));
  CrossEntropyOptions options;
  options.rows = 1;
  options.length = tokens;
  const BenchTime loss =
      best_time(5, [&] { fused_cross_entropy(rows, head, target, weight, options).loss.backward(); });
  double products = 0;
  {
    const OperationTimes times;
    steps.accumulate();
    steps.forget();
  }
  for (const auto& [name, seconds] : OperationTimes::seconds()) {
    products += is_product(name) ? seconds : 0;
  }
  {
    const OperationTimes times;
    fused_cross_entropy(rows, head, target, weight, options).loss.backward();
  }
  double products_of_loss = 0;
  for (const auto& [name, seconds] : OperationTimes::seconds()) products_of_loss += is_product(name) ? seconds : 0;
  const double optimizer = std::max(0.0, step.seconds - passes.seconds);
  const double layer_products = std::max(0.0, products - products_of_loss);
  const double rest = step.seconds - loss.seconds - optimizer - layer_products;
  report["seconds_per_step"] = rounded(step.seconds);
  report["seconds_loss"] = rounded(loss.seconds);
  report["seconds_optimizer"] = rounded(optimizer);
  report["seconds_products_of_layers"] = rounded(layer_products);
  report["seconds_rest"] = rounded(rest);
  report["share_rest"] = rounded(rest / step.seconds);
  if (!lists_operations) return 0;
  {
    const OperationTimes times;
    steps.accumulate();
    steps.forget();
  }
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, seconds] : OperationTimes::seconds()) sorted.emplace_back(seconds, name);
  std::sort(sorted.rbegin(), sorted.rend());
  nlohmann::ordered_json table;
  for (size_t i = 0; i < std::min<size_t>(40, sorted.size()); ++i) table[sorted[i].second] = rounded(sorted[i].first);
  report["operations"] = table;
}
