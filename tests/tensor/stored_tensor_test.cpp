// SPDX-License-Identifier: Apache-2.0
#include "tensor/stored_tensor.h"

#include <gtest/gtest.h>

#include "errors/errors.h"

namespace ballast {
namespace {

TEST(StoredTensor, EveryTypeSurvivesTheRoundTrip) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                                    at::kChar, at::kByte, at::kBool, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const at::Tensor tensor = at::tensor({0.0f, 1.0f, 0.5f, 2.0f, 3.0f, 4.0f}).view({2, 3}).to(type);
    const TensorBytes stored = store_tensor("t", tensor);
    EXPECT_EQ(stored.tensor.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(static_cast<int64_t>(stored.bytes.size()), stored.tensor.num_bytes());
    const at::Tensor borrowed = borrow_stored(stored.tensor, stored.bytes);
    EXPECT_EQ(borrowed.scalar_type(), type);
    EXPECT_TRUE(at::equal(borrowed.to(at::kDouble), tensor.to(at::kDouble))) << c10::toString(type);
  }
}

TEST(StoredTensor, RefusesATypeWithoutCounterpart) {
  const StoredTensor stored{"scale", StoredType::kF8E8M0, {1}};
  const std::byte byte{};
  EXPECT_THROW(borrow_stored(stored, {&byte, 1}), CheckpointError);
}

}  // namespace
}  // namespace ballast
