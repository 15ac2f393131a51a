// SPDX-License-Identifier: Apache-2.0
// The frame that pages about runs share.
#pragma once

#include <string>
#include <string_view>

namespace ballast {

/// Parts of a page. Texts are escaped here; `body` is HTML.
struct PageParts {
  std::string heading;   ///< also the title, before " - Ballast"
  std::string subtitle;  ///< below the heading
  std::string body;
  std::string_view style;  ///< beside kReportStyle
  std::string_view script;
};

/// A whole page with its style and script inside; it loads nothing.
std::string html_page(const PageParts& parts);

/// A number that stands out, for a <section class=tiles>. The value and the note are HTML.
std::string tile_html(const std::string& name, const std::string& value, const std::string& note);

/// A cell of a table, escaped.
std::string cell_html(const std::string& text);

}  // namespace ballast
