// SPDX-License-Identifier: Apache-2.0
// The seeds of the fuzz targets, once each: what a fuzzer found stays found, also where there is no clang.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/targets.h"

namespace ballast::fuzz {
namespace {

struct Target {
  const char* name;  // of the folder of its seeds
  void (*run)(std::string_view);
};

class Seeds : public testing::TestWithParam<Target> {};

TEST_P(Seeds, AreReadOrRefusedWithOneKindOfError) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(BALLAST_SOURCE_DIR) + "/fuzz/seeds/" + GetParam().name)) {
    paths.push_back(entry.path());
  }
  ASSERT_GE(paths.size(), 5u);
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NO_THROW(GetParam().run(bytes)) << path;
    for (const size_t size : {bytes.size() / 3, bytes.size() - bytes.size() / 5}) {
      EXPECT_NO_THROW(GetParam().run(std::string_view(bytes).substr(0, size))) << path << " cut to " << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Seeds,
                         testing::Values(Target{"yaml_values", yaml_values}, Target{"tokenizer_json", tokenizer_json},
                                         Target{"sentencepiece_model", sentencepiece_model},
                                         Target{"tiktoken_ranks", tiktoken_ranks},
                                         Target{"safetensors_header", safetensors_header},
                                         Target{"checkpoint_manifest", checkpoint_manifest},
                                         Target{"json_lines", json_lines}, Target{"expert_load", expert_load}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ballast::fuzz
