// SPDX-License-Identifier: Apache-2.0
#include "data/parquet_file.h"

#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <limits>

#include "errors/errors.h"
#include "files/file_error.h"

namespace ballast {
namespace {

// Rows decoded at once: large enough to be cheap, small enough that long documents do not pile up.
constexpr int64_t kRowsDecoded = 256;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw_file_error(ErrorKind::kData, path, {.what = "cannot be read as Parquet (" + reason + ")"});
}

template <class T>
T take(const std::filesystem::path& path, arrow::Result<T> result) {
  if (!result.ok()) fail(path, result.status().message());
  return std::move(result).ValueUnsafe();
}

std::unique_ptr<parquet::arrow::FileReader> open_reader(const std::filesystem::path& path) {
  auto file = take(path, arrow::io::MemoryMappedFile::Open(path.string(), arrow::io::FileMode::READ));
  parquet::ArrowReaderProperties properties;
  properties.set_batch_size(kRowsDecoded);
  properties.set_pre_buffer(false);  // it would copy whole column chunks out of the mapping
  parquet::arrow::FileReaderBuilder builder;
  if (const arrow::Status status = builder.Open(std::move(file)); !status.ok()) fail(path, status.message());
  builder.properties(properties);
  return take(path, builder.Build());
}

bool is_text(arrow::Type::type type) {
  using arrow::Type;
  return type == Type::STRING || type == Type::LARGE_STRING || type == Type::STRING_VIEW || type == Type::BINARY ||
         type == Type::LARGE_BINARY || type == Type::BINARY_VIEW;
}

bool is_text_column(const arrow::DataType& type) {
  if (type.id() != arrow::Type::DICTIONARY) return is_text(type.id());
  return is_text(static_cast<const arrow::DictionaryType&>(type).value_type()->id());
}

bool is_id_column(const arrow::DataType& type) {
  using arrow::Type;
  if (type.id() != Type::LIST && type.id() != Type::LARGE_LIST && type.id() != Type::FIXED_SIZE_LIST) return false;
  return arrow::is_integer(type.field(0)->type()->id());
}

std::string_view text_at(const arrow::Array& array, int64_t i) {
  using arrow::Type;
  switch (array.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      return static_cast<const arrow::BinaryArray&>(array).GetView(i);
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(array).GetView(i);
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return static_cast<const arrow::BinaryViewArray&>(array).GetView(i);
    case Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      return text_at(*dictionary.dictionary(), dictionary.GetValueIndex(i));
    }
    default:
      BALLAST_CHECK(false, array.type()->ToString());
  }
}

/// Calls `visit(const TypedArray&)` with the array cast to its integer type.
template <class Visitor>
void visit_integers(const arrow::Array& array, const Visitor& visit) {
  using arrow::Type;
  switch (array.type_id()) {
    case Type::INT8:
      return visit(static_cast<const arrow::Int8Array&>(array));
    case Type::INT16:
      return visit(static_cast<const arrow::Int16Array&>(array));
    case Type::INT32:
      return visit(static_cast<const arrow::Int32Array&>(array));
    case Type::INT64:
      return visit(static_cast<const arrow::Int64Array&>(array));
    case Type::UINT8:
      return visit(static_cast<const arrow::UInt8Array&>(array));
    case Type::UINT16:
      return visit(static_cast<const arrow::UInt16Array&>(array));
    case Type::UINT32:
      return visit(static_cast<const arrow::UInt32Array&>(array));
    case Type::UINT64:
      return visit(static_cast<const arrow::UInt64Array&>(array));
    default:
      BALLAST_CHECK(false, array.type()->ToString());
  }
}

/// The elements of list `i`, without copying them.
std::shared_ptr<arrow::Array> list_at(const arrow::Array& array, int64_t i) {
  using arrow::Type;
  switch (array.type_id()) {
    case Type::LIST:
      return static_cast<const arrow::ListArray&>(array).value_slice(i);
    case Type::LARGE_LIST:
      return static_cast<const arrow::LargeListArray&>(array).value_slice(i);
    default:
      return static_cast<const arrow::FixedSizeListArray&>(array).value_slice(i);
  }
}

std::vector<int32_t> ids_at(const arrow::Array& array, int64_t i, const Document& document) {
  const std::shared_ptr<arrow::Array> list = list_at(array, i);
  std::vector<int32_t> ids(static_cast<size_t>(list->length()));
  visit_integers(*list, [&](const auto& values) {
    for (int64_t k = 0; k < values.length(); ++k) {
      const bool is_id = !values.IsNull(k) && std::in_range<int32_t>(values.Value(k)) && values.Value(k) >= 0;
      if (!is_id) {
        const std::string got = values.IsNull(k) ? "null" : std::to_string(values.Value(k));
        throw DataError({document.place() + " position " + std::to_string(k), "is no token id", got,
                         "an integer from 0 to 2147483647", ""});
      }
      // int8 is a number here. NOLINTNEXTLINE(bugprone-signed-char-misuse)
      ids[static_cast<size_t>(k)] = static_cast<int32_t>(values.Value(k));
    }
  });
  return ids;
}

/// A value for listings.
std::string value_text(const std::filesystem::path& path, const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return "null";
  if (is_text_column(*array.type())) return std::string(text_at(array, i));
  if (!is_id_column(*array.type())) return take(path, array.GetScalar(i))->ToString();
  std::string text;
  visit_integers(*list_at(array, i), [&](const auto& values) {
    for (int64_t k = 0; k < values.length(); ++k) {
      text += (k > 0 ? ", " : "") + (values.IsNull(k) ? "null" : std::to_string(values.Value(k)));
    }
  });
  return "[" + text + "]";
}

class ParquetFile : public RowFile {
 public:
  ParquetFile(const std::filesystem::path& path, const Column& column)
      : path_(path),
        name_(std::make_shared<const std::string>(path.string())),
        column_(column),
        reader_(open_reader(path)) {
    check_column();
    const parquet::FileMetaData& metadata = *reader_->parquet_reader()->metadata();
    // A nested column has one or more leaves; leaves are what Parquet selects.
    for (int leaf = 0; leaf < metadata.num_columns(); ++leaf) {
      if (metadata.schema()->Column(leaf)->path()->ToDotVector().front() == column_.name) leaves_.push_back(leaf);
    }
    group_begin_.push_back(0);
    for (int group = 0; group < metadata.num_row_groups(); ++group) {
      group_begin_.push_back(group_begin_.back() + metadata.RowGroup(group)->num_rows());
    }
  }

  bool next(std::optional<Document>& document) override {
    document.reset();
    if (!load_batch()) return false;
    const arrow::Array& values = *batch_->column(0);
    const int64_t i = row_++ - batch_begin_;
    if (values.IsNull(i)) return true;
    document.emplace();
    document->file = name_;
    document->row = row_ - 1;
    if (column_.holds_ids) {
      document->ids = ids_at(values, i, *document);
    } else {
      document->text = text_at(values, i);
      document->owner = batch_;
    }
    return true;
  }

  void seek(int64_t row) override {
    row_ = row;
    batch_.reset();
    batches_.reset();
  }

 private:
  void check_column() const {
    std::shared_ptr<arrow::Schema> schema;
    if (const arrow::Status status = reader_->GetSchema(&schema); !status.ok()) fail(path_, status.message());
    const std::shared_ptr<arrow::Field> field = schema->GetFieldByName(column_.name);
    if (field == nullptr) {
      std::string names;
      for (const std::string& name : schema->field_names()) names += (names.empty() ? "" : ", ") + name;
      throw_file_error(ErrorKind::kData, path_, {"has no column '" + column_.name + "'", {}, "one of: " + names});
    }
    const bool fits = column_.holds_ids ? is_id_column(*field->type()) : is_text_column(*field->type());
    if (!fits) {
      throw_file_error(ErrorKind::kData, path_,
                       {"has a column '" + column_.name + "' of the wrong type", field->type()->ToString(),
                        column_.holds_ids ? "a list of integers" : "text"});
    }
  }

  /// Makes `batch_` hold row_; false at the end. Leaves out empty row groups.
  bool load_batch() {
    while (batch_ == nullptr || row_ >= batch_begin_ + batch_->num_rows()) {
      if (batches_ == nullptr && !open_group()) return false;
      if (batch_ != nullptr) batch_begin_ += batch_->num_rows();
      batch_ = take(path_, batches_->Next());
      if (batch_ == nullptr) batches_.reset();
    }
    return true;
  }

  /// Starts decoding the row group of row_; false when there is none.
  bool open_group() {
    const auto after = std::upper_bound(group_begin_.begin(), group_begin_.end(), row_);
    if (after == group_begin_.end()) return false;
    const int group = static_cast<int>(after - group_begin_.begin()) - 1;
    batch_begin_ = group_begin_[static_cast<size_t>(group)];
    batches_ = take(path_, reader_->GetRecordBatchReader({group}, leaves_));
    return true;
  }

  std::filesystem::path path_;
  std::shared_ptr<const std::string> name_;
  Column column_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> leaves_;
  std::vector<int64_t> group_begin_;  // first row of each group, then the number of rows
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t batch_begin_ = 0;
  int64_t row_ = 0;
};

/// Runs `body`, turning what the Parquet library throws into our error.
template <class Body>
auto guard(const std::filesystem::path& path, const Body& body) {
  try {
    return body();
  } catch (const parquet::ParquetException& error) {
    fail(path, error.what());
  }
}

}  // namespace

std::unique_ptr<RowFile> open_parquet(const std::filesystem::path& path, const Column& column) {
  return guard(path, [&] { return std::make_unique<ParquetFile>(path, column); });
}

TableSummary summarize_parquet(const std::filesystem::path& path) {
  return guard(path, [&] {
    const std::unique_ptr<parquet::arrow::FileReader> reader = open_reader(path);
    std::shared_ptr<arrow::Schema> schema;
    if (const arrow::Status status = reader->GetSchema(&schema); !status.ok()) fail(path, status.message());
    TableSummary summary;
    summary.format = "Parquet";
    summary.rows = reader->parquet_reader()->metadata()->num_rows();
    summary.row_groups = reader->num_row_groups();
    for (const auto& field : schema->fields()) summary.columns.emplace_back(field->name(), field->type()->ToString());
    if (summary.rows == 0) return summary;
    const std::unique_ptr<arrow::RecordBatchReader> batches = take(path, reader->GetRecordBatchReader());
    const std::shared_ptr<arrow::RecordBatch> batch = take(path, batches->Next());
    for (const auto& column : batch->columns()) {
      summary.first_row.push_back(value_text(path, *column, 0));
    }
    return summary;
  });
}

}  // namespace ballast
