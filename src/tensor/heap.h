// SPDX-License-Identifier: Apache-2.0
// How the process treats freed memory.
#pragma once

namespace ballast {

/// Freed memory stays with the process, large blocks too. By default the C library hands it back to the system, and
/// the system clears each page again in the next step, which asks for the same blocks: 4 % of a step's time. For
/// programs that train; does nothing outside glibc, or where MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_MAX_ is set.
void keep_freed_memory();

/// Gives freed blocks of a megabyte and more back at once, so that a program that reads tensors one after the other
/// holds no more than one or two. Does nothing outside glibc.
void return_freed_memory();

}  // namespace ballast
