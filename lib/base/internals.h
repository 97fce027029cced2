#pragma once

#include <memory>
#include <utility>

#include "tutti/error.h"
#include "tutti/work.h"

namespace tutti::detail {

/// What only the library does with the objects that it gives to programs.
class Internals {
 public:
  /// By a constructor that programs have no use for.
  template <class T, class... Arguments>
  static T make(Arguments&&... arguments) {
    return T(std::forward<Arguments>(arguments)...);
  }
  static void set_details(Error& error, FailureDetails details) {
    error.details_ = std::make_shared<const FailureDetails>(std::move(details));
  }
  static Pending* pending(const Handle& handle) { return handle.pending_; }
  static bool& unwaited(Handle& handle) { return handle.unwaited_; }
};

}  // namespace tutti::detail
