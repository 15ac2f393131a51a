// SPDX-License-Identifier: Apache-2.0
// What every part of the data pipeline has in common.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace ballast {

/// A resumable stream. Stages own the stage they read from; state() of the last one holds the states of all.
template <class Item>
class Stage {
 public:
  virtual ~Stage() = default;
  /// The next item, or nothing when the data ends; nothing from then on.
  virtual std::optional<Item> next() = 0;
  /// Back to the first item.
  virtual void reset() = 0;
  /// The position after the last item that next() returned. load_state() on an equally built stage continues there,
  /// bit for bit.
  virtual nlohmann::json state() const = 0;
  /// @throws DataError when the state belongs to other data or another pipeline
  virtual void load_state(const nlohmann::json& state) = 0;
};

}  // namespace ballast
