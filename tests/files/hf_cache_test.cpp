// SPDX-License-Identifier: Apache-2.0
#include "files/hf_cache.h"

#include <gtest/gtest.h>

#include "files/temp_folder.h"
#include "support/scoped_variable.h"

namespace ballast {
namespace {

TEST(HfCacheFolder, FollowsTheVariablesInOrder) {
  const ScopedVariable hub("HF_HUB_CACHE", nullptr), home("HF_HOME", nullptr), cache("XDG_CACHE_HOME", nullptr),
      user("HOME", "/u");
  EXPECT_EQ(hf_cache_folder(), "/u/.cache/huggingface/hub");
  const ScopedVariable with_cache("XDG_CACHE_HOME", "/c");
  EXPECT_EQ(hf_cache_folder(), "/c/huggingface/hub");
  const ScopedVariable with_home("HF_HOME", "/h");
  EXPECT_EQ(hf_cache_folder(), "/h/hub");
  const ScopedVariable with_hub("HF_HUB_CACHE", "/x");
  EXPECT_EQ(hf_cache_folder(), "/x");
}

TEST(HfCache, PrefersTheRevisionOfMain) {
  const TempFolder folder;
  const ScopedVariable hub("HF_HUB_CACHE", folder.path().c_str());
  const std::string snapshots = (folder / "models--org--name/snapshots/").string();
  folder.write("models--org--name/refs/main", "bbb\n");
  folder.write("models--org--name/snapshots/aaa/config.json", "1");
  folder.write("models--org--name/snapshots/aaa/only.json", "1");
  folder.write("models--org--name/snapshots/bbb/config.json", "2");
  EXPECT_EQ(find_in_hf_cache("models", "org/name", "config.json"), snapshots + "bbb/config.json");
  EXPECT_EQ(find_in_hf_cache("models", "org/name", "only.json"), snapshots + "aaa/only.json");
  EXPECT_EQ(find_in_hf_cache("models", "org/name", ""), snapshots + "bbb");
  EXPECT_EQ(find_in_hf_cache("models", "org/name", "absent"), std::nullopt);
  EXPECT_EQ(find_in_hf_cache("datasets", "org/name", "config.json"), std::nullopt);
}

TEST(HfCache, TakesTheFirstSnapshotWithoutMain) {
  const TempFolder folder;
  const ScopedVariable hub("HF_HUB_CACHE", folder.path().c_str());
  folder.write("datasets--plain/snapshots/b/x", "");
  folder.write("datasets--plain/snapshots/a/x", "");
  EXPECT_EQ(find_in_hf_cache("datasets", "plain", "x"), (folder / "datasets--plain/snapshots/a/x").string());
}

TEST(HfCache, RefusesWhatIsNoId) {
  const TempFolder folder;
  const ScopedVariable hub("HF_HUB_CACHE", folder.path().c_str());
  folder.write("models--..--x/snapshots/a/f", "");
  for (const char* id : {"", "/", "../x", "a/b/c", "/abs", "org/", ".hidden", "org/.x", "a b"}) {
    EXPECT_EQ(find_in_hf_cache("models", id, "f"), std::nullopt) << id;
  }
}

}  // namespace
}  // namespace ballast
