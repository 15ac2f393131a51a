// SPDX-License-Identifier: Apache-2.0
// Waiting OpenMP threads sleep instead of spinning: a spinning team loses its time slices as soon as another process
// holds a core. libgomp reads its settings in a library constructor, so the program starts itself once more with
// OMP_WAIT_POLICY=passive before any constructor runs. A user's own setting wins.
#include <alloca.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace {

void restart_with_passive_wait(int, char** arguments, char** environment) {
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (std::strncmp(environment[count], "OMP_WAIT_POLICY=", 16) == 0) return;
    if (std::strncmp(environment[count], "GOMP_SPINCOUNT=", 15) == 0) return;
  }
  auto** extended = static_cast<char**>(alloca((count + 2) * sizeof(char*)));
  std::copy_n(environment, count, extended);
  static char setting[] = "OMP_WAIT_POLICY=passive";
  extended[count] = setting;
  extended[count + 1] = nullptr;
  execve("/proc/self/exe", arguments, extended);  // on failure the program goes on as it is
}

__attribute__((section(".preinit_array"), used)) void (*const kRestart)(int, char**,
                                                                        char**) = restart_with_passive_wait;

}  // namespace
