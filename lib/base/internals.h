#pragma once

#include <memory>
#include <utility>

#include "tutti/error.h"
#include "tutti/work.h"

namespace tutti::detail {

/// Operations of the library on objects that programs hold.
class Internals {
 public:
  /// Uses a constructor that is private to the library.
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
