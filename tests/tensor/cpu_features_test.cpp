// SPDX-License-Identifier: Apache-2.0
#include "tensor/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ballast {
namespace {

TEST(CpuFeatures, AgreeWithTheFlagsThatTheKernelLists) {
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().empty()) GTEST_SKIP() << "no /proc/cpuinfo";
#if defined(__x86_64__)
  const std::string flag = " avx512_bf16 ";
#else
  const std::string flag = " bf16 ";
#endif
  EXPECT_EQ(has_native_bf16_gemm(), text.str().find(flag) != std::string::npos);
}

}  // namespace
}  // namespace ballast
