// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_sentencepiece.h"

#include <sentencepiece_processor.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "data/object_pool.h"
#include "data/tokenizer_model.h"
#include "data/tokenizer_model_proto.h"
#include "data/tokenizer_utf8.h"
#include "errors/errors.h"
#include "files/file_error.h"

namespace ballast {
namespace {

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& file) : file_(file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw_system_error(ErrorKind::kData, file, "cannot be read", errno);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    facts_ = check_model_proto(bytes, file);
    load(bytes);
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const override {
    if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      throw DataError({"tokenizer.encode", "the text is too long", std::to_string(text.size()) + " bytes",
                       "less than 2 GiB", "cutting it into documents"});
    }
    std::string repaired;
    text = valid_utf8(text, repaired);
    std::vector<int32_t> ids;
    const std::optional<int32_t> bos = bos_id();
    if (add_special_tokens && bos) ids.push_back(*bos);
    if (facts_.has_independent_words) {
      append_words(text, ids);
    } else {
      append_ids(text, ids);
    }
    return ids;
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    std::vector<int> known;
    for (const int32_t id : ids) {
      if (id < 0 || id >= processor_.GetPieceSize()) continue;
      if (skip_special_tokens && processor_.IsControl(id)) continue;
      known.push_back(id);
    }
    std::string text, repaired;
    const auto status = processor_.Decode(known, &text);
    if (!status.ok()) throw_file_error(ErrorKind::kData, file_, {"ids cannot be decoded", one_line(status.ToString())});
    return std::string(valid_utf8(text, repaired));
  }

  int64_t vocab_size() const override { return processor_.GetPieceSize(); }

  std::optional<int32_t> token_to_id(std::string_view token) const override {
    const int id = processor_.PieceToId(token);
    return id >= 0 && id < processor_.GetPieceSize() && processor_.IdToPiece(id) == token ? role(id) : std::nullopt;
  }

  std::optional<int32_t> bos_id() const override { return role(processor_.bos_id()); }
  std::optional<int32_t> eos_id() const override { return role(processor_.eos_id()); }
  std::optional<int32_t> pad_id() const override { return role(processor_.pad_id()); }
  std::optional<int32_t> unk_id() const override { return role(processor_.unk_id()); }
  std::string_view type() const override { return "sentencepiece"; }

 private:
  void load(const std::string& bytes) {
    std::string reason;
    try {
      const auto status = processor_.LoadFromSerializedProto(bytes);
      if (status.ok()) return;
      reason = status.ToString();
    } catch (const std::exception& error) {  // of the library's tries
      reason = error.what();
    }
    throw_file_error(ErrorKind::kData, file_, {"the SentencePiece library refuses the model", one_line(reason)});
  }

  /// Word by word, each one encoded once. The library puts a space in front of each if there is a dummy prefix; then it
  /// gets the words after the first without theirs.
  void append_words(std::string_view text, std::vector<int32_t>& ids) const {
    std::unique_ptr<WordCache> cache = caches_.take();
    for (bool is_first = true; !text.empty(); is_first = false) {
      const size_t end = word_end(text);
      const std::string_view word = text.substr(0, end);
      text.remove_prefix(end);
      const std::string_view given = !is_first && facts_.has_dummy_prefix ? word.substr(1) : word;
      if (given.size() > WordCache::kWordBytes) {
        append_ids(given, ids);
      } else if (!cache->find(given, ids)) {
        const size_t before = ids.size();
        append_ids(given, ids);
        cache->keep(given, std::span(ids).subspan(before));
      }
    }
    caches_.give_back(std::move(cache));
  }

  /// Where a space begins the next word: after what is no space, and with something behind it.
  static size_t word_end(std::string_view text) {
    for (size_t space = text.find(' ', 1); space != std::string_view::npos; space = text.find(' ', space + 1)) {
      const std::string_view before = text.substr(0, space);
      if (space + 1 < text.size() && !before.ends_with(' ') && !before.ends_with(kSpaceMark)) return space;
    }
    return text.size();
  }

  void append_ids(std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<int> found;
    const auto status = processor_.Encode(text, &found);
    if (!status.ok())
      throw_file_error(ErrorKind::kData, file_, {"a text cannot be encoded", one_line(status.ToString())});
    ids.insert(ids.end(), found.begin(), found.end());
  }

  static std::optional<int32_t> role(int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); }
  static std::string one_line(std::string text) {
    for (char& c : text) c = c == '\n' ? ' ' : c;
    return text;
  }

  std::string file_;
  ModelFacts facts_;
  sentencepiece::SentencePieceProcessor processor_;
  mutable ObjectPool<WordCache> caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentencepiece(const std::string& file) {
  return std::make_unique<SentencePieceTokenizer>(file);
}

}  // namespace ballast
