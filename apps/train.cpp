// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "apps/commands.h"
#include "config/resolve.h"
#include "tensor/heap.h"
#include "train/trainer.h"

namespace ballast {

int run_train(const Arguments& arguments) {
  Arguments keys = arguments;
  const bool prints_config = std::erase(keys, "--print_config") > 0;
  const Config config = resolve_config(keys, {});
  if (prints_config) {
    std::fputs(print_config(config).c_str(), stdout);
    return 0;
  }
  keep_freed_memory();
  return Trainer(config).run();
}

}  // namespace ballast
