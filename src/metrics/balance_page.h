// SPDX-License-Identifier: Apache-2.0
// The expert load of one run or of two as one HTML page that needs nothing else.
#pragma once

#include <span>
#include <string>

#include "metrics/balance.h"

namespace ballast {

/// The page: numbers of the step of `view`, a map of load by layer and expert with a slider over the recorded steps,
/// the variance of each layer over the steps, and the table. Colours mean the same in both maps and on every page: the
/// binary logarithm of an expert's load over the mean of its layer, from an eighth to eight times; experts without load
/// have a colour of their own. It stays below 10 MB: of long runs or large models it shows evenly spaced steps, and
/// says which share.
/// @param runs  those of the view
std::string balance_page(std::span<const RunLoads> runs, const BalanceView& view);

}  // namespace ballast
