// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include "checkpoint/manifest.h"
#include "errors/errors.h"
#include "files/atomic_file.h"
#include "files/file_error.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

/// The step of a checkpoint's name; nothing for any other name, "007" among them.
std::optional<int64_t> step_of(const std::string& name) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || std::to_string(step) != name || step < 0) {
    return std::nullopt;
  }
  return step;
}

/// "<step>.tmp-<pid>" or "<step>.old-<pid>".
bool is_unfinished(const std::string& name) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos || !step_of(name.substr(0, dot))) return false;
  const std::string_view rest = std::string_view(name).substr(dot);
  return rest.starts_with(".tmp-") || rest.starts_with(".old-");
}

}  // namespace

std::vector<int64_t> checkpoint_steps(const fs::path& root) {
  std::vector<int64_t> steps;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    const std::optional<int64_t> step = step_of(entry.path().filename().string());
    if (step && entry.is_directory()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool has_complete_marker(const fs::path& checkpoint) {
  return fs::is_regular_file(checkpoint / kCompleteName);
}

bool is_checkpoint_folder(const fs::path& path) {
  const char* names[] = {kManifestName, kCompleteName, kModelName};
  return std::any_of(std::begin(names), std::end(names), [&](const char* name) { return fs::exists(path / name); });
}

fs::path find_checkpoints(const fs::path& path) {
  if (fs::is_directory(path / "checkpoints")) return path / "checkpoints";
  const std::vector<int64_t> steps = checkpoint_steps(path);
  const bool holds_one = std::any_of(steps.begin(), steps.end(),
                                     [&](int64_t step) { return is_checkpoint_folder(path / std::to_string(step)); });
  return holds_one || path.filename() == "checkpoints" ? path : fs::path();
}

void remove_unfinished(const fs::path& root) {
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    if (is_unfinished(entry.path().filename().string())) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

void prune_checkpoints(const fs::path& root, int64_t most) {
  std::vector<int64_t> steps = checkpoint_steps(root);
  std::erase_if(steps, [&](int64_t step) { return !has_complete_marker(root / std::to_string(step)); });
  for (size_t i = 0; i + static_cast<size_t>(most) < steps.size(); ++i) {
    const std::string name = std::to_string(steps[i]);
    const fs::path doomed = root / (name + ".old-" + std::to_string(::getpid()));
    std::error_code error;
    fs::rename(root / name, doomed, error);
    if (!error) {
      sync_folder(root);
      fs::remove_all(doomed, error);
    }
    if (error) throw_system_error(ErrorKind::kCheckpoint, root / name, "cannot be deleted", error.value());
  }
}

FolderLock::FolderLock(const fs::path& root) {
  std::error_code error;
  fs::create_directories(root, error);
  if (error) throw_system_error(ErrorKind::kCheckpoint, root, "cannot be created", error.value());
  folder_ = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) throw_system_error(ErrorKind::kCheckpoint, root, "cannot be opened", errno);
  // A file system without locks must not keep anyone from training.
  if (::flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(folder_);
    throw_file_error(
        ErrorKind::kCheckpoint, root,
        {.what = "another program trains into this folder", .attempt = "another run_name, or wait until it ends"});
  }
}

FolderLock::~FolderLock() {
  ::close(folder_);
}

}  // namespace ballast
