// SPDX-License-Identifier: Apache-2.0
// What the run-time checks of a build with BALLAST_ASAN are told; the environment (ASAN_OPTIONS, UBSAN_OPTIONS) wins.

// The names are those that the checks look for.
// NOLINTBEGIN(bugprone-reserved-identifier)

// Leaks: libtorch, Arrow and OpenMP keep pools and thread teams until the process ends, and the leak checker needs
// ptrace, which containers often forbid.
// Pairs of new and free: the wheels are built with another compiler and free through their own libraries.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:alloc_dealloc_mismatch=0:detect_stack_use_after_return=1:strict_string_checks=1";
}

extern "C" const char* __ubsan_default_options() {
  return "halt_on_error=1:print_stacktrace=1";
}
// NOLINTEND(bugprone-reserved-identifier)
