// SPDX-License-Identifier: Apache-2.0
// 16-bit token ids under a large vocabulary: princeton-nlp/LLM-Shearing#65.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// Every id file says how wide its ids are, and recorded batches have one width: nothing is guessed or reinterpreted.
TEST(LlmShearing65, IdsOfAnotherWidthAreRefusedWithFileAndWidth) {
  const ProgramFolder folder;
  write_tensors<uint16_t>(folder.path() / "narrow.safetensors",
                          {{"batches", StoredType::kU16, {1, 2, 33}, std::vector<uint16_t>(66, 7)}});
  const ProgramResult result =
      folder.run(tiny_run({"dataset_type=recorded", "recorded_batches_path=narrow.safetensors", "vocab_size=100000"}));
  EXPECT_EQ(result.exit_code, 3);
  for (const char* part : {"narrow.safetensors", "U16 [1, 2, 33]", "I32"}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

TEST(LlmShearing65, IdsAbove16BitsArriveWhole) {
  const ProgramFolder folder;
  Ids tokens(66, 7);
  tokens[32] = 99999;  // 34463 in 16 bits
  write_recorded(folder.path() / "rows.safetensors", 2, 32, tokens, Ids(66, 1));
  const Words keys = {"dataset_type=recorded", "recorded_batches_path=rows.safetensors"};
  const ProgramResult refused = folder.run(tiny_run(joined(keys, {"vocab_size=99999"})));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_NE(refused.err.find("step 0 row 0 position 32: token id 99999 is outside vocab_size=99999"), std::string::npos)
      << refused.err;
  EXPECT_EQ(records_of(folder, tiny_run(joined(keys, {"vocab_size=100000", "steps=1"}))).size(), 1U);
}

}  // namespace
}  // namespace ballast::testing
