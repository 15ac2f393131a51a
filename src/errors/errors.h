// SPDX-License-Identifier: Apache-2.0
// Error kinds, their exit codes, and the one form of an error line.
#pragma once

#include <stdexcept>
#include <string>

namespace ballast {

/// Exit code of a run that ends with this kind of error.
enum class ErrorKind {
  kAborted = 1,      ///< training stopped by the NaN/Inf policy
  kConfig = 2,       ///< a key, a YAML file, the command line
  kData = 3,         ///< data files, tokenizers
  kCheckpoint = 4,   ///< checkpoints and weight files
  kNumeric = 5,      ///< impossible numbers given to the program
  kDistributed = 6,  ///< ranks, mesh, collectives
  kInternal = 70,    ///< our own fault
};

/// The parts of an error line, printed as `where: what; got G, need N; try T`. Empty parts are left out.
struct Fault {
  std::string where;    ///< key with file:line, data file with row, checkpoint path, or area.function
  std::string what;     ///< what is wrong
  std::string got;      ///< what was given
  std::string need;     ///< what would be right
  std::string attempt;  ///< what the user can try
};

/// The line of a fault, without line breaks.
std::string to_line(const Fault& fault);

/// Base of all errors that end a run. `what()` is the finished line.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const Fault& fault);
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

/// One class a kind, so that tests and callers can catch by kind.
template <ErrorKind Kind>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(const Fault& fault) : Error(Kind, fault) {}
};
using AbortedError = ErrorOf<ErrorKind::kAborted>;
using ConfigError = ErrorOf<ErrorKind::kConfig>;
using DataError = ErrorOf<ErrorKind::kData>;
using CheckpointError = ErrorOf<ErrorKind::kCheckpoint>;
using NumericError = ErrorOf<ErrorKind::kNumeric>;
using DistError = ErrorOf<ErrorKind::kDistributed>;
using InternalError = ErrorOf<ErrorKind::kInternal>;
/// Tensors whose shapes disagree: a fault of ours wherever user input was checked before.
class ShapeError : public InternalError {
 public:
  using InternalError::InternalError;
};

/// Throws InternalError with expression, file and line. For our own mistakes only, never for user input.
[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& note);

}  // namespace ballast

#define BALLAST_CHECK(condition, note)                                               \
  do {                                                                               \
    if (!(condition)) ::ballast::fail_check(#condition, __FILE__, __LINE__, (note)); \
  } while (false)
