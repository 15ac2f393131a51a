// SPDX-License-Identifier: Apache-2.0
// The rules of the tree that a compiler does not see: who may include whom, where torch may appear, licence lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ballast {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = BALLAST_SOURCE_DIR;

struct Area {
  bool is_host = true;            ///< built without torch
  std::set<std::string> visible;  ///< areas it may include: itself, its dependencies and theirs
};
using Areas = std::map<std::string, Area>;

/// Reads `ballast_area(name kind dependencies...)` lines. A dependency has to stand above.
Areas parse_areas(const std::string& cmake) {
  Areas areas;
  const std::regex line(R"(\nballast_area\((\w+) (host|tensor)([^)]*)\))");
  const std::regex dependency(R"(\bballast_(\w+))");
  for (std::sregex_iterator match(cmake.begin(), cmake.end(), line), end; match != end; ++match) {
    const std::string name = (*match)[1], dependencies = (*match)[3];
    Area area{(*match)[2] == "host", {name}};
    for (std::sregex_iterator one(dependencies.begin(), dependencies.end(), dependency); one != end; ++one) {
      const auto known = areas.find((*one)[1]);
      if (known != areas.end()) area.visible.insert(known->second.visible.begin(), known->second.visible.end());
    }
    areas[name] = area;
  }
  return areas;
}

/// Faults of one file of `area` (empty: outside src) with the contents `text`.
std::vector<std::string> layout_faults(const std::string& text, const std::string& area, const Areas& areas) {
  std::vector<std::string> faults;
  if (!text.starts_with("// SPDX-License-Identifier: Apache-2.0\n"))
    faults.emplace_back("the first line is no SPDX line");
  std::istringstream lines(text);
  const std::regex include(R"(^\s*#\s*include\s*[<"]([^">]+)[">])");
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_search(line, match, include)) continue;
    const std::string header = match[1], folder = header.substr(0, header.find('/'));
    if (header == "torch/torch.h") faults.emplace_back("includes torch/torch.h, half a minute of compiling");
    if (area.empty()) continue;
    const Area& self = areas.at(area);
    if (self.is_host && std::set<std::string>{"ATen", "torch", "c10", "caffe2"}.contains(folder)) {
      faults.push_back("includes " + header + ", but " + area + " is built without torch");
    }
    if (areas.contains(folder) && !self.visible.contains(folder)) {
      faults.push_back("includes " + header + ", but " + area + " does not depend on " + folder);
    }
  }
  return faults;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Areas project_areas() {
  return parse_areas(contents(kRoot / "CMakeLists.txt"));
}

TEST(Layout, EverySourceKeepsTheRules) {
  const Areas areas = project_areas();
  int num_files = 0;
  for (const char* tree : {"src", "apps", "tests", "bench", "fuzz"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / tree)) {
      const fs::path& path = entry.path();
      if (!std::set<std::string>{".h", ".cpp", ".def"}.contains(path.extension())) continue;
      ++num_files;
      const std::string area = std::string(tree) == "src" ? path.parent_path().filename().string() : "";
      ASSERT_TRUE(area.empty() || areas.contains(area)) << path << ": no area of CMakeLists.txt";
      for (const std::string& fault : layout_faults(contents(path), area, areas))
        ADD_FAILURE() << path << ": " << fault;
    }
  }
  EXPECT_GT(num_files, 50);
}

TEST(Layout, HostAreasDependOnHostAreasOnly) {
  const Areas areas = project_areas();
  ASSERT_TRUE(areas.contains("config") && areas.contains("train"));
  for (const auto& [name, area] : areas) {
    for (const std::string& other : area.visible) {
      EXPECT_TRUE(!area.is_host || areas.at(other).is_host) << name << " depends on " << other;
    }
  }
}

TEST(Layout, FaultsAreSeen) {
  const Areas areas = parse_areas(
      "\nballast_area(errors host Threads::Threads)\nballast_area(config host ballast_errors yaml-cpp)"
      "\nballast_area(ops tensor ballast_errors)\nballast_area(models tensor ballast_ops ballast_config)");
  const std::string spdx = "// SPDX-License-Identifier: Apache-2.0\n";
  EXPECT_EQ(layout_faults(spdx + "#include \"ops/rope.h\"\n#include <ATen/ATen.h>\n", "models", areas).size(), 0u);
  EXPECT_EQ(layout_faults(spdx + "#include \"errors/errors.h\"\n", "models", areas).size(), 0u);
  EXPECT_EQ(layout_faults(spdx + "#include \"models/block.h\"\n", "ops", areas).size(), 1u);
  EXPECT_EQ(layout_faults(spdx + "#include \"config/config.h\"\n", "ops", areas).size(), 1u);
  EXPECT_EQ(layout_faults(spdx + "#include <c10/core/Device.h>\n", "config", areas).size(), 1u);
  EXPECT_EQ(layout_faults(spdx + "#include <torch/torch.h>\n", "models", areas).size(), 1u);
  EXPECT_EQ(layout_faults("#pragma once\n", "", areas).size(), 1u);
}

}  // namespace
}  // namespace ballast
