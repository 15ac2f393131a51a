// SPDX-License-Identifier: Apache-2.0
// A JSON value that knows its file and its path in it, so that every complaint names both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ballast {

/// Typed reading of one value of a JSON file. The document must outlive the view. Every reader throws DataError with
/// file and path when the value has another type. Paths look like `model.merges[3]`.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string file, std::string path = {});

  const nlohmann::json& value() const { return *value_; }
  bool is_null() const;

  /// Whether this object has `key` with a value other than null.
  bool has(const std::string& key) const;
  /// Member of an object; absent is an error.
  JsonView member(const std::string& key) const;
  /// Entry of an array, which must have it.
  JsonView item(size_t index) const;
  /// Number of entries of an array.
  size_t size() const;
  std::vector<JsonView> items() const;

  const std::string& text() const;
  bool boolean() const;
  bool boolean_or(const std::string& key, bool absent) const;
  /// A token id: integer in [0, 2^31 - 2], so that one more than the largest still fits.
  int32_t id() const;
  /// The same, without the complaint.
  static std::optional<int32_t> as_id(const nlohmann::json& value);
  /// The member `type`, the name of a component.
  const std::string& type() const { return member_text("type"); }
  const std::string& member_text(const std::string& key) const;

  /// `data: FILE PATH`, the start of an error line.
  std::string where() const;
  [[noreturn]] void fail(const std::string& what, const std::string& got = {}, const std::string& need = {},
                         const std::string& attempt = {}) const;
  /// The component `type` is none of `supported`.
  [[noreturn]] void fail_type(const std::string& supported) const;

 private:
  void need_kind(bool holds, const char* kind) const;
  [[noreturn]] void fail_kind(const char* kind) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

/// Reads a whole JSON file; throws DataError when it cannot be read or is not JSON.
nlohmann::json read_json_file(const std::string& file);

}  // namespace ballast
