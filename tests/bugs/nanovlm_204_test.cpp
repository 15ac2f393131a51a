// SPDX-License-Identifier: Apache-2.0
// Packed documents that see each other, positions that run on: huggingface/nanoVLM#204, allenai/OLMo-core#591.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(NanoVlm204, BothCopiesOfADocumentHaveTheLossesOfTheDocumentAlone) {
  constexpr size_t kLength = 12;
  const Ids document = some_ids(kLength), other = some_ids(kLength, 3);
  const auto packed = [&](const Ids& first) {
    Ids row = first;
    row.insert(row.end(), document.begin(), document.end());
    Ids segments(kLength, 1);
    segments.insert(segments.end(), kLength, 2);
    const ProgramFolder folder;
    return probe(folder, 1, row, segments).at("token_loss");
  };
  const ProgramFolder folder;
  const std::vector<float> alone = probe(folder, 1, document, Ids(kLength, 1)).at("token_loss");
  const std::vector<float> twice = packed(document), after_other = packed(other);
  for (size_t t = 0; t + 1 < kLength; ++t) {
    EXPECT_GT(alone[t], 0);
    EXPECT_NEAR(twice[t], alone[t], 2e-6 * alone[t]) << "first copy, position " << t;
    EXPECT_NEAR(twice[kLength + t], alone[t], 2e-6 * alone[t]) << "second copy, position " << t;
    EXPECT_EQ(after_other[kLength + t], twice[kLength + t]) << "behind another document, position " << t;
  }
  EXPECT_EQ(twice[kLength - 1], 0) << "the last token of a document has no target";
}

// Without packing the same eight documents fill twice the rows and train the same loss.
TEST(NanoVlm204, PackingChangesNoLoss) {
  const auto loss = [](const Words& rows) {
    const ProgramFolder folder;
    std::vector<Ids> documents;
    for (int i = 0; i < 8; ++i) documents.push_back(some_ids(16, i));
    write_documents(folder, "data/train.jsonl", documents);
    const auto records =
        records_of(folder, golden_llama_run("train", document_keys(joined({"max_target_length=32"}, rows))));
    EXPECT_EQ(records.at(0).at("learning/total_weights"), 8 * 15);
    return records.at(0).at("learning/loss").get<double>();
  };
  const double packed = loss({"per_device_batch_size=4"});
  EXPECT_NEAR(loss({"per_device_batch_size=8", "packing=false"}) / packed, 1.0, 1e-6);
}

}  // namespace
}  // namespace ballast::testing
