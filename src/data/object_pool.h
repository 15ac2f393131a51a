// SPDX-License-Identifier: Apache-2.0
// Objects that calls from several threads take one at a time and give back for the next call.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace ballast {

template <typename Object>
class ObjectPool {
 public:
  std::unique_ptr<Object> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Object> object = std::move(free_.back());
        free_.pop_back();
        return object;
      }
    }
    return std::make_unique<Object>();
  }
  void give_back(std::unique_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(object));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Object>> free_;
};

}  // namespace ballast
