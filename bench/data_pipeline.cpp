// SPDX-License-Identifier: Apache-2.0
// Claim: reading, tokenising, shuffling and packing text is much faster than a step needs it.
#include "config/config.h"
#include "config/resolve.h"
#include "data/loader.h"
#include "report.h"

/// data_pipeline [key=value ...], from the root of the checkout
int main(int argc, char** argv) {
  using namespace ballast;
  std::vector<std::string> keys = {"configs/demo.yml", "max_target_length=1024", "per_device_batch_size=16",
                                   "num_epoch=20"};
  keys.insert(keys.end(), argv + 1, argv + argc);
  const Config config = resolve_config(keys, {});
  BenchReport report(argc, argv);
  constexpr int kBatches = 200;
  double counted = 0;
  const BenchTime time = best_time(3, [&] {
    const auto source = make_train_source(config, {});
    counted = 0;
    for (int i = 0; i < kBatches; ++i) counted += static_cast<double>(source->next()->loss_tokens());
  });
  const double positions = static_cast<double>(kBatches * config.global_batch_size_to_load * config.max_target_length);
  report["positions"] = positions;
  report["share_of_positions_that_count"] = rounded(counted / positions);
  report["positions_per_second"] = rounded(positions / time.seconds);
  report["positions_per_cpu_second"] = rounded(positions / time.cpu_seconds);
}
