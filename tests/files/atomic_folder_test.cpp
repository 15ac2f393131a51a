// SPDX-License-Identifier: Apache-2.0
#include "files/atomic_folder.h"

#include <gtest/gtest.h>

#include "temp_folder.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& folder, const std::string& text) {
  std::ofstream(folder / "a.txt") << text;
}

TEST(AtomicFolder, AppearsWhenItIsPublished) {
  const TempFolder home;
  AtomicFolder folder(home / "deep/target", ErrorKind::kCheckpoint);
  put(folder.path(), "new");
  EXPECT_FALSE(fs::exists(home / "deep/target"));
  folder.publish();
  EXPECT_EQ(read_file(home / "deep/target/a.txt"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(home / "deep"), {}), 1);
}

TEST(AtomicFolder, WithoutPublishNothingIsLeft) {
  const TempFolder home;
  {
    put(AtomicFolder(home / "target", ErrorKind::kCheckpoint).path(), "new");
  }
  EXPECT_EQ(home.num_entries(), 0U);
}

TEST(AtomicFolder, TakesThePlaceOfAnEmptyFolderOnly) {
  const TempFolder home;
  fs::create_directory(home / "target");
  check_free_folder(home / "target", ErrorKind::kCheckpoint);
  AtomicFolder first(home / "target", ErrorKind::kCheckpoint);
  put(first.path(), "first");
  first.publish();
  EXPECT_EQ(error_line<CheckpointError>([&] { check_free_folder(home / "target", ErrorKind::kCheckpoint); }),
            "checkpoint: " + (home / "target").string() + ": is there already; need a new or an empty folder");
  AtomicFolder second(home / "target", ErrorKind::kCheckpoint);
  put(second.path(), "second");
  EXPECT_THROW(second.publish(), CheckpointError);
  EXPECT_EQ(read_file(home / "target/a.txt"), "first");
}

}  // namespace
}  // namespace ballast
