// SPDX-License-Identifier: Apache-2.0
#include "metrics/report_html.h"

#include "metrics/report_assets.h"
#include "metrics/report_chart.h"

namespace ballast {

std::string html_page(const PageParts& parts) {
  const std::string heading = escape_html(parts.heading);
  return "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
         "<meta name=viewport content=\"width=device-width,initial-scale=1\"><title>" +
         heading + " - Ballast</title><style>" + std::string(kReportStyle) + std::string(parts.style) +
         "</style></head>\n<body><main><header><h1>" + heading + "</h1><p class=quiet>" + escape_html(parts.subtitle) +
         "</p></header>\n" + parts.body + "<script>" + std::string(parts.script) + "</script></main></body></html>\n";
}

std::string tile_html(const std::string& name, const std::string& value, const std::string& note) {
  return "<div><span>" + name + "</span><b>" + value + "</b><small>" + note + "</small></div>";
}

std::string cell_html(const std::string& text) {
  return "<td>" + escape_html(text) + "</td>";
}

}  // namespace ballast
