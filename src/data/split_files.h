// SPDX-License-Identifier: Apache-2.0
// Finds the files of a data set's split.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ballast {

struct SplitQuery {
  std::string path;                ///< hf_path: folder, file, Hugging Face id, or parquet, json, text with `files`
  std::string name;                ///< hf_name: sub-folder
  std::string data_dir;            ///< hf_data_dir: sub-folder
  std::vector<std::string> files;  ///< paths or patterns; these are the split when there are any
  std::string files_key;           ///< "hf_train_files" or "hf_eval_files", for messages
  std::string split;
  bool takes_single_file = false;  ///< a file as `path` is the whole split, whatever its name
};

/// The files of the split, sorted by path; explicit files in the order given.
///
/// A folder is searched itself, then its `data` sub-folder. All files have one format: Parquet if there is any such
/// file, else JSON lines, else plain text. A file belongs to the split if its base name contains the split's name.
/// @throws DataError naming what was looked for and where: nothing there, no file of the split
std::vector<std::filesystem::path> find_split_files(const SplitQuery& query);

}  // namespace ballast
