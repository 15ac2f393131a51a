// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_model_proto.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "data/tokenizer_charsmap.h"
#include "data/tokenizer_utf8.h"
#include "files/file_error.h"

namespace ballast {
namespace {

/// A field of a message: number, wire type, and its bytes or its number.
struct Field {
  uint32_t number = 0;
  uint32_t wire_type = 0;
  uint64_t value = 0;      ///< of a varint
  std::string_view bytes;  ///< of a length-delimited field, or of a fixed one
};

constexpr uint64_t kBpe = 2;  // TrainerSpec.ModelType
enum PieceType : uint64_t { kNormal = 1, kUserDefined = 4, kUnused = 5 };

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : message_(message) {}

  /// The next field; nothing at the end or at a fault.
  std::optional<Field> next() {
    if (place_ == message_.size()) return std::nullopt;
    Field field;
    const std::optional<uint64_t> tag = varint();
    if (!tag || *tag >> 3 == 0 || *tag >> 32 != 0) return fault();
    field.number = static_cast<uint32_t>(*tag >> 3);
    field.wire_type = static_cast<uint32_t>(*tag & 7);
    std::optional<uint64_t> size = 0;
    if (field.wire_type == kVarint) {
      const std::optional<uint64_t> value = varint();
      if (!value) return fault();
      field.value = *value;
      return field;
    }
    if (field.wire_type == kBytes) {
      size = varint();
    } else if (field.wire_type == kFixed32) {
      size = 4;
    } else if (field.wire_type == kFixed64) {
      size = 8;
    } else {
      return fault();
    }
    if (!size || *size > message_.size() - place_) return fault();
    field.bytes = message_.substr(place_, static_cast<size_t>(*size));
    place_ += static_cast<size_t>(*size);
    return field;
  }
  bool is_faulty() const { return is_faulty_; }
  size_t place() const { return place_; }

 private:
  std::nullopt_t fault() {
    is_faulty_ = true;
    return std::nullopt;
  }
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (place_ == message_.size()) return std::nullopt;
      const auto byte = static_cast<unsigned char>(message_[place_++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::string_view message_;
  size_t place_ = 0;
  bool is_faulty_ = false;
};

class ModelCheck {
 public:
  explicit ModelCheck(const std::string& file) : file_(file) {}

  ModelFacts model(std::string_view bytes) {
    MessageReader reader(bytes);
    int64_t num_pieces = 0;
    while (const std::optional<Field> field = reader.next()) {
      if (field->wire_type != kBytes) continue;
      if (field->number == 1) piece(field->bytes, num_pieces++);
      if (field->number == 2) trainer(field->bytes);
      if (field->number == 3) normalizer(field->bytes, /*is_for_input=*/true);
      if (field->number == 5) normalizer(field->bytes, /*is_for_input=*/false);
    }
    if (reader.is_faulty()) {
      fail("is not a SentencePiece model or is cut off",
           "a fault at byte " + std::to_string(reader.place()) + " of " + std::to_string(bytes.size()));
    }
    if (num_pieces == 0) fail("is not a SentencePiece model", "no pieces");
    facts_.has_independent_words = is_bpe_ && has_mark_ && is_plain_ && !removes_spaces_ && !has_inner_space_;
    return facts_;
  }

 private:
  void piece(std::string_view bytes, int64_t index) {
    const std::string name = "piece " + std::to_string(index);
    MessageReader reader(bytes);
    std::string_view text;
    uint64_t type = kNormal;
    while (const std::optional<Field> field = reader.next()) {
      if (field->number == 1 && field->wire_type == kBytes) {
        std::string storage;
        text = field->bytes;
        if (valid_utf8(text, storage).data() != text.data()) fail(name + " is not UTF-8");
      }
      if (field->number == 2 && field->wire_type == kFixed32) {
        float score = 0;
        std::memcpy(&score, field->bytes.data(), sizeof(score));
        if (!std::isfinite(score)) fail(name + " has a score that is not finite");
      }
      if (field->number == 3 && field->wire_type == kVarint) type = field->value;
    }
    if (reader.is_faulty()) fail(name + " is malformed");
    if (text.empty()) fail(name + " has no text");
    if (text.find('\0') != std::string_view::npos) fail(name + " holds a zero byte");
    if (type == kNormal && text == kSpaceMark) has_mark_ = true;
    if (type != kNormal && type != kUserDefined && type != kUnused) return;
    while (text.starts_with(kSpaceMark)) text.remove_prefix(kSpaceMark.size());
    if (text.find(kSpaceMark) != std::string_view::npos || text.find(' ') != std::string_view::npos) {
      has_inner_space_ = true;
    }
  }

  void trainer(std::string_view bytes) {
    constexpr uint32_t kModelType = 3, kWhitespaceAsSuffix = 24;
    MessageReader reader(bytes);
    while (const std::optional<Field> field = reader.next()) {
      if (field->number == kModelType) is_bpe_ = field->value == kBpe;
      if (field->number == kWhitespaceAsSuffix) is_plain_ = is_plain_ && field->value == 0;
    }
    if (reader.is_faulty()) fail("the trainer's settings are malformed");
  }

  void normalizer(std::string_view bytes, bool is_for_input) {
    constexpr uint32_t kMap = 2, kDummyPrefix = 3, kRemoveSpaces = 4, kEscapeSpaces = 5;
    MessageReader reader(bytes);
    while (const std::optional<Field> field = reader.next()) {
      if (is_for_input && field->number == kDummyPrefix) facts_.has_dummy_prefix = field->value != 0;
      if (is_for_input && field->number == kRemoveSpaces) removes_spaces_ = field->value != 0;
      if (is_for_input && field->number == kEscapeSpaces) is_plain_ = is_plain_ && field->value != 0;
      if (field->number != kMap || field->wire_type != kBytes || field->bytes.empty()) continue;
      if (!Charsmap::read(field->bytes)) fail("the normalizer's character map is damaged");
      if (is_for_input) is_plain_ = false;
    }
    if (reader.is_faulty()) fail("the normalizer's settings are malformed");
  }

  [[noreturn]] void fail(const std::string& what, const std::string& got = {}) {
    throw_file_error(ErrorKind::kData, file_, {what, got, {}, "fetching the file again"});
  }

  const std::string& file_;
  ModelFacts facts_;
  bool is_bpe_ = false;
  bool has_mark_ = false;
  bool is_plain_ = true;
  bool removes_spaces_ = true;
  bool has_inner_space_ = false;
};

}  // namespace

ModelFacts check_model_proto(std::string_view bytes, const std::string& file) {
  return ModelCheck(file).model(bytes);
}

}  // namespace ballast
