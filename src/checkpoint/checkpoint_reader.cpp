// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checksum.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "files/file_error.h"
#include "files/mapped_file.h"
#include "files/parallel.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

constexpr auto kKind = ErrorKind::kCheckpoint;
/// Small enough to be in the cache still when the checksum passes over it.
constexpr size_t kReadBytes = size_t{512} << 10;

/// Runs `body`; what it says of a file is damage.
template <class Body>
auto finding_damage(const Body& body) {
  try {
    return body();
  } catch (const CheckpointError& error) {
    throw DamagedCheckpointError({.where = {}, .what = error.what(), .got = {}, .need = {}, .attempt = {}});
  }
}

[[noreturn]] void fail_checksum(const fs::path& path, const std::string& what, const std::string& got,
                                const std::string& need) {
  throw_file_error(kKind, path, {.what = what + " has another checksum: damaged", .got = got, .need = need});
}

void check_file_size(const fs::path& path, uint64_t need) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error) throw_system_error(kKind, path, "cannot be read", error.value());
  if (size != need) {
    throw_file_error(kKind, path,
                     {.what = size < need ? "is cut off" : "is too long",
                      .got = std::to_string(size) + " bytes",
                      .need = std::to_string(need)});
  }
}

/// The text of the manifest, which the marker vouches for.
std::string read_manifest_text(const fs::path& folder) {
  const fs::path marker = folder / kCompleteName;
  if (!fs::is_directory(folder)) throw_file_error(kKind, folder, {.what = "no such folder"});
  if (!fs::exists(marker)) {
    throw_file_error(kKind, folder, {.what = "not complete (no " + std::string(kCompleteName) + " file)"});
  }
  const MappedFile text(folder / kManifestName, kKind);
  std::string need(MappedFile(marker, kKind).text());
  while (!need.empty() && need.back() == '\n') need.pop_back();
  const std::string got = checksum_of(text.bytes());
  if (got != need) fail_checksum(folder / kManifestName, "the manifest", got, need);
  return std::string(text.text());
}

Manifest read_manifest(const fs::path& folder) {
  const std::string text = finding_damage([&] { return read_manifest_text(folder); });
  return parse_manifest(text, (folder / kManifestName).string());
}

/// Copies a box, given row-major, to its place in the whole tensor.
void copy_box(const ManifestTensor& entry, const TensorPiece& piece, const std::byte* from, std::byte* to) {
  const std::vector<int64_t>& whole = entry.tensor.shape;
  // Trailing dimensions that the box has whole make one run of bytes.
  size_t num_outer = whole.size();
  int64_t run = stored_type_bytes(entry.tensor.type);
  while (num_outer > 0) {
    --num_outer;
    run *= piece.shape[num_outer];
    if (piece.shape[num_outer] != whole[num_outer]) break;
  }
  std::vector<int64_t> stride(whole.size(), stored_type_bytes(entry.tensor.type));
  for (size_t d = whole.size(); d-- > 1;) stride[d - 1] = stride[d] * whole[d];
  int64_t base = 0;
  for (size_t d = 0; d < whole.size(); ++d) base += piece.begin[d] * stride[d];
  int64_t num_runs = 1;
  for (size_t d = 0; d < num_outer; ++d) num_runs *= piece.shape[d];
  std::vector<int64_t> index(num_outer, 0);
  for (int64_t i = 0; i < num_runs; ++i) {
    int64_t offset = base;
    for (size_t d = 0; d < num_outer; ++d) offset += index[d] * stride[d];
    std::memcpy(to + offset, from + i * run, static_cast<size_t>(run));
    for (size_t d = num_outer; d-- > 0 && ++index[d] == piece.shape[d];) index[d] = 0;
  }
}

}  // namespace

/// A tensor file: its table, and a descriptor to read data with.
class CheckpointReader::DataFile {
 public:
  explicit DataFile(const fs::path& path) : table_(path, kKind), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) throw_system_error(kKind, path, "cannot be read", errno);
  }
  ~DataFile() { ::close(file_); }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const SafetensorsFile& table() const { return table_; }

  /// Reads a tensor's data and returns their checksum. A read() fills the target at once; a mapping would fault in
  /// every page first.
  std::string read(const std::string& name, std::span<std::byte> target) const {
    Checksum checksum;
    auto offset = static_cast<off_t>(table_.bytes(name).data() - table_.header().data());
    while (!target.empty()) {
      const ssize_t count = ::pread(file_, target.data(), std::min(target.size(), kReadBytes), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) throw_system_error(kKind, table_.path(), "cannot be read", count == 0 ? EIO : errno);
      checksum.update(target.first(static_cast<size_t>(count)));
      target = target.subspan(static_cast<size_t>(count));
      offset += count;
    }
    return checksum.text();
  }

 private:
  SafetensorsFile table_;
  int file_ = -1;
};

CheckpointReader::CheckpointReader(fs::path folder) : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {
  for (size_t i = 0; i < manifest_.tensors.size(); ++i) index_[manifest_.tensors[i].tensor.name] = i;
  finding_damage([&] {
    for (const ManifestFile& file : manifest_.files) check_file_size(folder_ / file.name, file.bytes);
    open_tensor_files();
  });
}

const ManifestTensor* CheckpointReader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &manifest_.tensors[found->second];
}

void CheckpointReader::open_tensor_files() {
  for (const ManifestFile& file : manifest_.files) {
    const fs::path path = folder_ / file.name;
    if (path.extension() != ".safetensors") {
      files_.push_back(nullptr);
      continue;
    }
    files_.push_back(std::make_shared<DataFile>(path));
    const std::string got = checksum_of(files_.back()->table().header());
    if (got != file.checksum) fail_checksum(path, "the header", got, file.checksum);
  }
  for (const ManifestTensor& entry : manifest_.tensors) {
    for (const TensorPiece& piece : entry.pieces) {
      const fs::path path = folder_ / manifest_.files[piece.file].name;
      const DataFile* file = files_[piece.file].get();
      const StoredTensor* stored = file == nullptr ? nullptr : file->table().find(entry.tensor.name);
      if (stored == nullptr) throw_file_error(kKind, path, {.what = "has no tensor '" + entry.tensor.name + "'"});
      if (stored->shape != piece.shape || stored->type != entry.tensor.type) {
        throw_file_error(kKind, path,
                         {.what = "tensor '" + entry.tensor.name + "' is not the one of the manifest",
                          .got = stored->description(),
                          .need = StoredTensor{{}, entry.tensor.type, piece.shape}.description()});
      }
    }
  }
}

std::string CheckpointReader::document(std::string_view name) const {
  return finding_damage([&] { return checked_document(name); });
}

std::string CheckpointReader::checked_document(std::string_view name) const {
  const ManifestFile* file = manifest_.find_file(name);
  if (file == nullptr) throw_file_error(kKind, folder_, {.what = "has no " + std::string(name)});
  const MappedFile content(folder_ / file->name, kKind);
  const std::string got = checksum_of(content.bytes());
  if (got != file->checksum) fail_checksum(folder_ / file->name, "the file", got, file->checksum);
  return std::string(content.text());
}

void CheckpointReader::read_piece(const ManifestTensor& entry, const TensorPiece& piece,
                                  std::span<std::byte> whole) const {
  const DataFile& file = *files_[piece.file];
  const bool is_whole = piece.shape == entry.tensor.shape;
  std::vector<std::byte> box;
  if (!is_whole) box.resize(file.table().bytes(entry.tensor.name).size());
  const std::string got = file.read(entry.tensor.name, is_whole ? whole : std::span(box));
  if (got != piece.checksum) {
    fail_checksum(file.table().path(), "tensor '" + entry.tensor.name + "'", got, piece.checksum);
  }
  if (!is_whole) copy_box(entry, piece, box.data(), whole.data());
}

void CheckpointReader::read(const std::vector<TensorTarget>& targets) const {
  struct Job {
    const TensorTarget* target;
    const TensorPiece* piece;
    size_t num_bytes;
  };
  std::vector<Job> jobs;
  for (const TensorTarget& target : targets) {
    const auto num_bytes = static_cast<size_t>(target.entry->tensor.num_bytes());
    BALLAST_CHECK(target.bytes.size() == num_bytes, target.entry->tensor.name);
    for (const TensorPiece& piece : target.entry->pieces) {
      jobs.push_back({&target, &piece, files_[piece.file]->table().bytes(target.entry->tensor.name).size()});
    }
  }
  // Largest first: no thread is left with a large one at the end.
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.num_bytes > b.num_bytes; });
  finding_damage([&] {
    run_parallel(jobs.size(),
                 [&](size_t i) { read_piece(*jobs[i].target->entry, *jobs[i].piece, jobs[i].target->bytes); });
  });
}

void CheckpointReader::verify() const {
  for (const ManifestFile& file : manifest_.files) {
    if (fs::path(file.name).extension() != ".safetensors") document(file.name);
  }
  run_parallel(manifest_.tensors.size(), [&](size_t i) {
    const ManifestTensor& entry = manifest_.tensors[i];
    std::vector<std::byte> buffer(static_cast<size_t>(entry.tensor.num_bytes()));
    read({{&entry, buffer}});
  });
}

std::optional<int64_t> use_newest_checkpoint(const fs::path& root,
                                             const std::function<void(const CheckpointReader&)>& use) {
  const std::vector<int64_t> steps = checkpoint_steps(root);
  for (size_t i = steps.size(); i-- > 0;) {
    try {
      const CheckpointReader reader(root / std::to_string(steps[i]));
      if (reader.manifest().step != steps[i]) {
        throw_file_error(
            kKind, reader.folder(),
            {.what = "holds another step than its name says", .got = std::to_string(reader.manifest().step)});
      }
      use(reader);
      return steps[i];
    } catch (const DamagedCheckpointError& error) {
      log_warning(error.what() + (i > 0 ? "; using " + std::to_string(steps[i - 1]) : std::string()));
    }
  }
  if (steps.empty()) return std::nullopt;
  throw_file_error(kKind, root,
                   {.what = "no checkpoint of this run can be used",
                    .attempt = "another run_name to begin anew, or remove the folder"});
}

}  // namespace ballast
