// SPDX-License-Identifier: Apache-2.0
#include "data/line_reader.h"

namespace ballast {

bool LineReader::next(std::string_view& line) {
  joined_.clear();
  while (true) {
    if (piece_.empty()) piece_ = stream_->next();
    if (piece_.empty()) {
      line = joined_;
      line_number_ += !joined_.empty();
      return !joined_.empty();
    }
    const size_t end = piece_.find('\n');
    const std::string_view part = piece_.substr(0, end);
    piece_.remove_prefix(end == std::string_view::npos ? piece_.size() : end + 1);
    if (end == std::string_view::npos || !joined_.empty()) joined_ += part;
    if (end == std::string_view::npos) continue;
    line = joined_.empty() ? part : joined_;
    ++line_number_;
    return true;
  }
}

void LineReader::rewind() {
  stream_->rewind();
  piece_ = {};
  line_number_ = 0;
}

}  // namespace ballast
