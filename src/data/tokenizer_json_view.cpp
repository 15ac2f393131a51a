// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_json_view.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "errors/errors.h"
#include "files/json_text.h"

namespace ballast {

JsonView::JsonView(const nlohmann::json& value, std::string file, std::string path)
    : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

bool JsonView::is_null() const {
  return value_->is_null();
}

bool JsonView::has(const std::string& key) const {
  need_kind(value_->is_object(), "an object");
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

JsonView JsonView::member(const std::string& key) const {
  need_kind(value_->is_object(), "an object");
  const auto found = value_->find(key);
  if (found == value_->end()) fail("has no member " + key);
  return JsonView(*found, file_, path_.empty() ? key : path_ + "." + key);
}

JsonView JsonView::item(size_t index) const {
  return JsonView((*value_)[index], file_, path_ + "[" + std::to_string(index) + "]");
}

size_t JsonView::size() const {
  need_kind(value_->is_array(), "an array");
  return value_->size();
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> views;
  views.reserve(size());
  for (size_t i = 0; i < value_->size(); ++i) views.push_back(item(i));
  return views;
}

const std::string& JsonView::text() const {
  need_kind(value_->is_string(), "a string");
  return value_->get_ref<const std::string&>();
}

bool JsonView::boolean() const {
  need_kind(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

bool JsonView::boolean_or(const std::string& key, bool absent) const {
  return has(key) ? member(key).boolean() : absent;
}

int32_t JsonView::id() const {
  if (const std::optional<int32_t> id = as_id(*value_)) return *id;
  fail_kind("a token id (integer in 0..2147483646)");
}

std::optional<int32_t> JsonView::as_id(const nlohmann::json& value) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max() - 1;
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kLargest}) return std::nullopt;
  const auto number = value.get<int64_t>();
  if (number < 0 || number > kLargest) return std::nullopt;
  return static_cast<int32_t>(number);
}

const std::string& JsonView::member_text(const std::string& key) const {
  return member(key).text();
}

std::string JsonView::where() const {
  return "data: " + file_ + (path_.empty() ? "" : " " + path_);
}

void JsonView::fail(const std::string& what, const std::string& got, const std::string& need,
                    const std::string& attempt) const {
  throw DataError({.where = where(), .what = what, .got = got, .need = need, .attempt = attempt});
}

void JsonView::fail_type(const std::string& supported) const {
  member("type").fail("this component is not supported", type(), supported);
}

void JsonView::need_kind(bool holds, const char* kind) const {
  if (!holds) fail_kind(kind);
}

void JsonView::fail_kind(const char* kind) const {
  std::string got = value_->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (got.size() > 60) got = got.substr(0, 60) + " ...";
  fail("wrong type", got, kind);
}

nlohmann::json read_json_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream.is_open() || stream.bad()) {
    throw DataError(
        {.where = "data: " + file, .what = "cannot be read", .got = std::strerror(errno), .need = {}, .attempt = {}});
  }
  try {
    return parse_json(content);
  } catch (const nlohmann::json::parse_error& error) {
    throw DataError({.where = "data: " + file,
                     .what = "is not valid JSON",
                     .got = error.byte == 0 ? "a number out of range"
                                            : "a fault at byte " + std::to_string(error.byte) + " of " +
                                                  std::to_string(content.size()),
                     .need = "a complete JSON document",
                     .attempt = "fetching the file again"});
  }
}

}  // namespace ballast
