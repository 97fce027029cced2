#pragma once

#include <string>

#include "tutti/c.h"

namespace tutti::c_api {

/// An argument that only C can get wrong. `guarded` adds the name of the function.
struct Wrong {
  std::string why;
};

/// Remembers the exception that is being handled as this thread's last error. This is the one place where exceptions
/// become results.
tutti_result keep_exception(const char* function) noexcept;

/// The body of every function of the C interface: no exception leaves it.
template <class Body>
tutti_result guarded(const char* function, Body body) noexcept {
  try {
    body();
    return TUTTI_OK;
  } catch (...) {
    return keep_exception(function);
  }
}

}  // namespace tutti::c_api
