// SPDX-License-Identifier: Apache-2.0
#include "files/file_list.h"

#include <gtest/gtest.h>

#include "files/temp_folder.h"

namespace ballast {
namespace {

using Paths = std::vector<std::filesystem::path>;

TEST(MatchPattern, ExpandsWildcardsAndBracesInOrder) {
  const TempFolder folder;
  for (const char* name : {"b1.txt", "a2.txt", "a1.txt", "a1.bin"}) folder.write(name, "");
  const std::string root = folder.path().string();
  EXPECT_EQ(match_pattern(root + "/a?.txt"), (Paths{folder / "a1.txt", folder / "a2.txt"}));
  EXPECT_EQ(match_pattern(root + "/{b,a}1.txt"), (Paths{folder / "a1.txt", folder / "b1.txt"}));
  EXPECT_EQ(match_pattern(root + "/{a1,a}*.bin"), (Paths{folder / "a1.bin"}));
  EXPECT_EQ(match_pattern(root + "/b1.txt"), (Paths{folder / "b1.txt"}));
  EXPECT_EQ(match_pattern(root + "/none"), Paths{});
}

TEST(ListFiles, LeavesOutSubFolders) {
  const TempFolder folder;
  folder.write("b", "");
  folder.write("a", "");
  folder.write("sub/c", "");
  EXPECT_EQ(list_files(folder.path()), (Paths{folder / "a", folder / "b"}));
}

}  // namespace
}  // namespace ballast
