// SPDX-License-Identifier: Apache-2.0
#include "tensor/precision.h"

#include <gtest/gtest.h>

#include "errors/errors.h"
#include "tensor/cpu_features.h"

namespace ballast {
namespace {

TEST(Precision, FloatWeightsAreTheMasterItself) {
  const Precision precision = Precision::resolve("float32", "float32", at::Device(at::kCPU));
  const at::Tensor master = at::ones({3});
  EXPECT_EQ(precision.weight_copy(master).const_data_ptr(), master.const_data_ptr());
}

TEST(Precision, RoundsThroughWeightTypeAndActivationType) {
  const Precision precision = Precision::resolve("float32", "bfloat16", at::Device(at::kCPU));
  const at::Tensor copy = precision.weight_copy(at::full({1}, 1.0 + 1.0 / 512));
  EXPECT_EQ(copy.scalar_type(), at::kFloat);
  EXPECT_EQ(copy.item<float>(), 1.0f);  // bf16 has 8 bits of mantissa
}

TEST(Precision, ProductsOfBfloatRunNativelyOnlyWhereTheProcessorHasThem) {
  const Precision precision = Precision::resolve("bfloat16", "float32", at::Device(at::kCPU));
  EXPECT_EQ(precision.activation, at::kBFloat16);
  EXPECT_EQ(precision.product, has_native_bf16_gemm() ? at::kBFloat16 : at::kFloat);
}

TEST(ParseDtype, NamesTheKeyOfAnUnknownType) {
  try {
    parse_dtype("float8", "weight_dtype");
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "weight_dtype: number type is not supported; got float8, need float32 or bfloat16");
  }
}

}  // namespace
}  // namespace ballast
