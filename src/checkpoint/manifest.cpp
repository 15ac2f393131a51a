// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "errors/errors.h"
#include "files/json_text.h"

namespace ballast {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "ballast checkpoint";

/// Reads the fields of one object; a fault names the place inside the manifest.
class ObjectReader {
 public:
  ObjectReader(const json& value, std::string path, std::string place)
      : value_(value), path_(std::move(path)), place_(std::move(place)) {
    if (!value_.is_object()) fail("is not an object", value_.type_name());
  }

  [[noreturn]] void fail(const std::string& what, const std::string& got, const std::string& need = {}) const {
    throw CheckpointError({"checkpoint: " + path_, (place_.empty() ? "" : place_ + " ") + what, got, need, ""});
  }
  const json& field(const char* name) const {
    const auto found = value_.find(name);
    if (found == value_.end()) fail(std::string("has no '") + name + "'", "");
    return *found;
  }
  std::string text(const char* name) const {
    const json& found = field(name);
    if (!found.is_string()) fail(std::string("'") + name + "' is not text", found.dump());
    return found.get<std::string>();
  }
  int64_t count(const char* name) const { return to_count(field(name), name); }
  std::vector<int64_t> counts(const char* name) const {
    std::vector<int64_t> numbers;
    for (const json& item : list(name)) numbers.push_back(to_count(item, name));
    return numbers;
  }
  const json& list(const char* name) const {
    const json& found = field(name);
    if (!found.is_array()) fail(std::string("'") + name + "' is not a list", found.type_name());
    return found;
  }
  std::string checksum() const {
    const std::string digits = text("checksum");
    const bool is_hexadecimal = digits.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (digits.size() != 16 || !is_hexadecimal) fail("'checksum' is malformed", digits, "16 hexadecimal digits");
    return digits;
  }
  const std::string& path() const { return path_; }

 private:
  int64_t to_count(const json& number, const char* name) const {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kMost) {
      fail(std::string("'") + name + "' is not a count", number.dump());
    }
    return number.get<int64_t>();
  }

  const json& value_;
  std::string path_, place_;
};

StoredType read_type(const ObjectReader& reader) {
  const std::string name = reader.text("dtype");
  const std::optional<StoredType> type = find_stored_type(name);
  if (!type) reader.fail("has an unknown dtype", name);
  return *type;
}

/// Product of a shape; nothing where bytes of `width` each do not fit 63 bits.
std::optional<int64_t> product_of(const std::vector<int64_t>& shape, int64_t width) {
  int64_t product = width;
  for (const int64_t dimension : shape) {
    if (__builtin_mul_overflow(product, dimension, &product)) return std::nullopt;
  }
  return product / width;
}

ManifestFile read_file(const ObjectReader& reader) {
  ManifestFile file{reader.text("name"), static_cast<uint64_t>(reader.count("bytes")), reader.checksum()};
  const bool is_plain = !file.name.empty() && file.name.find('/') == std::string::npos &&
                        file.name.find('\0') == std::string::npos && file.name != "." && file.name != "..";
  if (!is_plain) reader.fail("is no file of the checkpoint's folder", file.name);
  return file;
}

TensorPiece read_piece(const ObjectReader& reader, const ManifestTensor& tensor, size_t num_files) {
  TensorPiece piece{static_cast<size_t>(reader.count("file")), reader.counts("begin"), reader.counts("shape"),
                    reader.checksum()};
  if (piece.file >= num_files) {
    reader.fail("names a file that is not listed", std::to_string(piece.file), "below " + std::to_string(num_files));
  }
  const std::vector<int64_t>& whole = tensor.tensor.shape;
  bool fits = piece.begin.size() == whole.size() && piece.shape.size() == whole.size();
  for (size_t d = 0; fits && d < whole.size(); ++d) {
    fits = piece.begin[d] <= whole[d] && piece.shape[d] <= whole[d] - piece.begin[d];
  }
  if (!fits) reader.fail("lies outside its tensor", "", tensor.tensor.description());
  return piece;
}

ManifestTensor read_tensor(const ObjectReader& reader, size_t num_files) {
  ManifestTensor tensor;
  tensor.tensor.name = reader.text("name");
  tensor.tensor.type = read_type(reader);
  tensor.tensor.shape = reader.counts("shape");
  if (!product_of(tensor.tensor.shape, stored_type_bytes(tensor.tensor.type))) {
    reader.fail("has an impossible shape", reader.field("shape").dump());
  }
  int64_t num_elements = 0;
  for (const json& item : reader.list("pieces")) {
    const ObjectReader piece(item, reader.path(), "a piece of tensor '" + tensor.tensor.name + "'");
    tensor.pieces.push_back(read_piece(piece, tensor, num_files));
    const int64_t num_more = *product_of(tensor.pieces.back().shape, 1);
    if (num_more > tensor.tensor.num_elements() - num_elements) reader.fail("has pieces that overlap", "");
    num_elements += num_more;
  }
  if (num_elements != tensor.tensor.num_elements()) {
    reader.fail("is not covered by its pieces", std::to_string(num_elements) + " elements",
                std::to_string(tensor.tensor.num_elements()));
  }
  return tensor;
}

json parse_root(std::string_view text, const std::string& path) {
  try {
    return parse_json(text);
  } catch (const json::parse_error& error) {
    throw CheckpointError(
        {"checkpoint: " + path, "is not JSON", "a fault at byte " + std::to_string(error.byte), "", ""});
  }
}

CheckpointKind read_kind(const ObjectReader& reader) {
  const std::string kind = reader.text("kind");
  for (const CheckpointKind candidate : {CheckpointKind::kTraining, CheckpointKind::kWeights}) {
    if (kind == checkpoint_kind_name(candidate)) return candidate;
  }
  reader.fail("has an unknown kind", kind, "training or weights");
}

}  // namespace

std::string_view checkpoint_kind_name(CheckpointKind kind) {
  return kind == CheckpointKind::kTraining ? "training" : "weights";
}

const ManifestFile* Manifest::find_file(std::string_view name) const {
  const auto found = std::find_if(files.begin(), files.end(), [&](const auto& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

std::string to_json(const Manifest& manifest) {
  // One line a file and a tensor: short enough to read, and to compare with another one.
  const auto lines = [](const std::vector<ordered_json>& items) {
    std::string text = "[";
    for (size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ",\n  " : "\n  ") + items[i].dump();
    return text + "]";
  };
  std::vector<ordered_json> files, tensors;
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  }
  for (const ManifestTensor& entry : manifest.tensors) {
    ordered_json pieces = ordered_json::array();
    for (const TensorPiece& piece : entry.pieces) {
      pieces.push_back(
          {{"file", piece.file}, {"begin", piece.begin}, {"shape", piece.shape}, {"checksum", piece.checksum}});
    }
    tensors.push_back({{"name", entry.tensor.name},
                       {"dtype", stored_type_name(entry.tensor.type)},
                       {"shape", entry.tensor.shape},
                       {"pieces", std::move(pieces)}});
  }
  const ordered_json head = {{"format", kFormat},           {"version", kCheckpointVersion},
                             {"program", manifest.program}, {"kind", checkpoint_kind_name(manifest.kind)},
                             {"step", manifest.step},       {"config_digest", manifest.config_digest}};
  std::string text = head.dump();
  text.pop_back();
  return text + ",\n\"files\": " + lines(files) + ",\n\"tensors\": " + lines(tensors) + "}\n";
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  const json root = parse_root(text, path);
  const ObjectReader reader(root, path, "");
  if (reader.text("format") != kFormat) reader.fail("is not the manifest of a checkpoint", reader.text("format"));
  const int64_t version = reader.count("version");
  if (version > kCheckpointVersion) {
    reader.fail("has a newer format", "version " + std::to_string(version),
                "at most " + std::to_string(kCheckpointVersion) + ": a newer ballast");
  }
  Manifest manifest;
  manifest.program = reader.text("program");
  manifest.kind = read_kind(reader);
  manifest.step = reader.count("step");
  manifest.config_digest = reader.text("config_digest");
  for (const json& item : reader.list("files")) {
    manifest.files.push_back(read_file({item, path, "file " + std::to_string(manifest.files.size())}));
  }
  std::set<std::string_view> names;
  for (const json& item : reader.list("tensors")) {
    const ObjectReader entry(item, path, "tensor " + std::to_string(manifest.tensors.size()));
    manifest.tensors.push_back(read_tensor(entry, manifest.files.size()));
  }
  for (const ManifestTensor& entry : manifest.tensors) {
    if (!names.insert(entry.tensor.name).second) reader.fail("lists a tensor twice", entry.tensor.name);
  }
  return manifest;
}

}  // namespace ballast
