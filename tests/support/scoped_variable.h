// SPDX-License-Identifier: Apache-2.0
// A variable of the environment, set as long as a test lives.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace ballast {

/// Sets one variable of the environment, or removes it, and puts the old value back.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedVariable() { set(old_ ? old_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const char* value) { value == nullptr ? ::unsetenv(name_) : ::setenv(name_, value, 1); }
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace ballast
