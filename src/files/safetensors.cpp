// SPDX-License-Identifier: Apache-2.0
#include "files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "files/file_error.h"
#include "files/json_text.h"
#include "files/mapped_file.h"

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

namespace ballast {
namespace {

using nlohmann::json;

struct TypeRow {
  StoredType type;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<TypeRow, 16> kTypes{{
    {StoredType::kF64, "F64", 8},
    {StoredType::kF32, "F32", 4},
    {StoredType::kF16, "F16", 2},
    {StoredType::kBF16, "BF16", 2},
    {StoredType::kF8E4M3, "F8_E4M3", 1},
    {StoredType::kF8E5M2, "F8_E5M2", 1},
    {StoredType::kF8E8M0, "F8_E8M0", 1},
    {StoredType::kI64, "I64", 8},
    {StoredType::kI32, "I32", 4},
    {StoredType::kI16, "I16", 2},
    {StoredType::kI8, "I8", 1},
    {StoredType::kU64, "U64", 8},
    {StoredType::kU32, "U32", 4},
    {StoredType::kU16, "U16", 2},
    {StoredType::kU8, "U8", 1},
    {StoredType::kBool, "BOOL", 1},
}};

const TypeRow& row_of(StoredType type) {
  return kTypes[static_cast<size_t>(type)];
}

// The public implementation refuses longer headers too.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// A tensor of the header with its place in the data part.
struct Entry {
  StoredTensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Turns the bytes of one file into a checked table.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, ErrorKind kind, std::string_view content)
      : path_(path), kind_(kind), content_(content) {}

  std::vector<Entry> read(std::map<std::string, std::string>& metadata) {
    const json header = parse();
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(value, metadata);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
    });
    check_spans(entries);
    return entries;
  }

  uint64_t data_offset() const { return 8 + header_bytes_; }

 private:
  [[noreturn]] void fail(const FileFault& fault) const { throw_file_error(kind_, path_, fault); }
  [[noreturn]] void fail_tensor(const std::string& name, FileFault fault) const {
    fault.what = "tensor '" + name + "' " + fault.what;
    fail(fault);
  }

  json parse() {
    if (content_.size() < 8) {
      fail({"is too short for a safetensors file", std::to_string(content_.size()) + " bytes", "8 or more"});
    }
    std::memcpy(&header_bytes_, content_.data(), 8);
    if (header_bytes_ > std::min<uint64_t>(kMaxHeaderBytes, content_.size() - 8)) {
      fail({"is cut off or no safetensors file: its header reaches past the end",
            "a header of " + std::to_string(header_bytes_) + " bytes",
            "at most " + std::to_string(content_.size() - 8)});
    }
    // The parser keeps the last of two equal keys, so they are looked for while it runs.
    std::set<std::string> names;
    const auto watch_names = [&](int depth, json::parse_event_t event, json& value) {
      if (event == json::parse_event_t::key && depth == 1 && !names.insert(value.get<std::string>()).second) {
        fail_tensor(value.get<std::string>(), {"stands in the header twice"});
      }
      return true;
    };
    json header;
    try {
      check_json_levels(content_.substr(8, header_bytes_));
      header = json::parse(content_.substr(8, header_bytes_), watch_names);
    } catch (const json::exception& error) {
      fail({std::string("has a header that is not JSON (") + error.what() + ")"});
    }
    if (!header.is_object()) fail({"has a header that is not a JSON object"});
    return header;
  }

  void read_metadata(const json& value, std::map<std::string, std::string>& metadata) const {
    if (!value.is_object()) fail({"has a __metadata__ that is not an object"});
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail({"has a __metadata__ entry '" + key + "' that is not text"});
      metadata[key] = text.get<std::string>();
    }
  }

  Entry read_entry(const std::string& name, const json& value) const {
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets") ||
        !value["dtype"].is_string()) {
      fail_tensor(name, {"has no dtype, shape and data_offsets"});
    }
    Entry entry;
    entry.tensor.name = name;
    entry.tensor.type = read_type(name, value["dtype"].get<std::string>());
    const uint64_t num_bytes = read_shape(value["shape"], entry.tensor);
    const json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      fail_tensor(name, {"has data_offsets that are not two numbers", offsets.dump(), "[begin, end]"});
    }
    entry.begin = offsets[0].get<uint64_t>();
    entry.end = offsets[1].get<uint64_t>();
    const uint64_t data_bytes = content_.size() - data_offset();
    if (entry.begin > entry.end || entry.end > data_bytes) {
      fail_tensor(
          name, {"lies outside the file (cut off?)", offsets.dump(), "begin <= end <= " + std::to_string(data_bytes)});
    }
    if (entry.end - entry.begin != num_bytes) {
      fail_tensor(name, {"has a span that does not fit " + entry.tensor.description(),
                         std::to_string(entry.end - entry.begin) + " bytes", std::to_string(num_bytes)});
    }
    if ((data_offset() + entry.begin) % static_cast<uint64_t>(stored_type_bytes(entry.tensor.type)) != 0) {
      fail_tensor(name, {"is not aligned to its element width", "byte " + std::to_string(data_offset() + entry.begin),
                         "a multiple of " + std::to_string(stored_type_bytes(entry.tensor.type)),
                         "saving the file again with a current safetensors release"});
    }
    return entry;
  }

  StoredType read_type(const std::string& tensor, const std::string& name) const {
    const std::optional<StoredType> type = find_stored_type(name);
    if (!type) fail_tensor(tensor, {"has an unknown dtype", "'" + name + "'"});
    return *type;
  }

  /// Fills the shape and returns the bytes it takes; a product that does not fit 63 bits is refused.
  uint64_t read_shape(const json& value, StoredTensor& tensor) const {
    if (!value.is_array()) fail_tensor(tensor.name, {"has a shape that is not a list", value.dump()});
    int64_t product = stored_type_bytes(tensor.type);
    for (const json& dimension : value) {
      const bool is_count = dimension.is_number_unsigned() && dimension.get<uint64_t>() <= INT64_MAX;
      if (!is_count || __builtin_mul_overflow(product, dimension.get<int64_t>(), &product)) {
        fail_tensor(tensor.name, {"has an impossible shape", value.dump()});
      }
      tensor.shape.push_back(dimension.get<int64_t>());
    }
    return static_cast<uint64_t>(product);
  }

  /// The format asks that the sorted spans cover the data part exactly.
  void check_spans(const std::vector<Entry>& entries) const {
    uint64_t covered = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != covered) {
        fail_tensor(entry.tensor.name, {entry.begin < covered ? "overlaps another tensor" : "leaves a gap before it",
                                        "begin " + std::to_string(entry.begin), std::to_string(covered)});
      }
      covered = entry.end;
    }
    const uint64_t data_bytes = content_.size() - data_offset();
    if (covered != data_bytes) {
      fail({"has bytes that belong to no tensor", std::to_string(data_bytes) + " data bytes", std::to_string(covered)});
    }
  }

  const std::filesystem::path& path_;
  ErrorKind kind_;
  std::string_view content_;
  uint64_t header_bytes_ = 0;
};

}  // namespace

std::string_view stored_type_name(StoredType type) {
  return row_of(type).name;
}
std::optional<StoredType> find_stored_type(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}
int64_t stored_type_bytes(StoredType type) {
  return row_of(type).bytes;
}

int64_t StoredTensor::num_elements() const {
  int64_t product = 1;
  for (const int64_t dimension : shape) product *= dimension;
  return product;
}

std::string StoredTensor::description() const {
  std::string text = std::string(stored_type_name(type)) + " [";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, ErrorKind kind)
    : path_(path), kind_(kind), mapping_(std::make_shared<const MappedFile>(path, kind)) {
  HeaderReader reader(path_, kind_, mapping_->text());
  for (Entry& entry : reader.read(metadata_)) {
    index_[entry.tensor.name] = tensors_.size();
    spans_.push_back(mapping_->bytes().subspan(reader.data_offset() + entry.begin, entry.end - entry.begin));
    tensors_.push_back(std::move(entry.tensor));
  }
  data_offset_ = reader.data_offset();
}

uint64_t SafetensorsFile::num_bytes() const {
  return mapping_->bytes().size();
}

std::span<const std::byte> SafetensorsFile::header() const {
  return mapping_->bytes().first(data_offset_);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  return tensors_[index_of(name)];
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  return spans_[index_of(name)];
}

size_t SafetensorsFile::index_of(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    throw_file_error(kind_, path_, {.what = "has no tensor '" + std::string(name) + "'"});
  }
  return found->second;
}

}  // namespace ballast
