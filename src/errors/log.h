// SPDX-License-Identifier: Apache-2.0
// Log lines on stderr. stdout belongs to results.
#pragma once

#include <string>

namespace ballast {

/// Prints `line` on stderr, as it is. Safe from any thread.
void log_info(const std::string& line);

/// Prints `warning: line` on stderr.
void log_warning(const std::string& line);

/// As log_warning, but each `topic` speaks once a process. Name in `line` the key that silences it.
void warn_once(const std::string& topic, const std::string& line);

/// Prints `error: line` on stderr.
void log_error(const std::string& line);

}  // namespace ballast
