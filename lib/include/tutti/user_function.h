#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>

#include "tutti/export.h"

namespace tutti::detail {
inline namespace TUTTI_ABI {

/// The function of a user's op, shared by all copies of the op; null for tutti's own. It is not a std::shared_ptr,
/// which is no literal type in C++20, so that ops can be constants: see types.h.
class UserFunction {
 public:
  using Function = std::function<void(void* accumulated, const void* operand, std::size_t count)>;

  constexpr UserFunction() = default;
  explicit UserFunction(Function function) : shared_(new Shared{std::move(function)}) {}
  constexpr UserFunction(const UserFunction& other) noexcept : shared_(other.shared_) {
    if (shared_) shared_->users.fetch_add(1, std::memory_order_relaxed);
  }
  constexpr UserFunction(UserFunction&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}
  constexpr UserFunction& operator=(UserFunction other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  constexpr ~UserFunction() {
    if (shared_ && shared_->users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared_;
  }

  /// Whether there is one that can be called.
  explicit operator bool() const { return shared_ && shared_->function; }
  const Function& operator*() const { return shared_->function; }

 private:
  struct Shared {
    Function function;
    std::atomic<std::size_t> users = 1;
  };

  Shared* shared_ = nullptr;
};

}  // namespace TUTTI_ABI
}  // namespace tutti::detail
