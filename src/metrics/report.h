// SPDX-License-Identifier: Apache-2.0
// A run's metrics as one HTML page that needs nothing else.
#pragma once

#include <string>

#include "metrics/run_history.h"

namespace ballast {

/// The page: head with the numbers that matter, charts, evaluations, all numbers of the last step, notes of the reader.
/// Styles and script are inside it, it loads nothing, and it stays below 1 MB for any number of steps.
/// @param written_at  when the run wrote its last record, as text; empty: not said
std::string report_page(const RunHistory& history, const std::string& written_at);

}  // namespace ballast
