#include "errors.h"

#include <c10/util/Exception.h>

namespace tutti_torch {

void fail(tutti_result result) {
  const std::string text = tutti_last_error();
  TORCH_CHECK_VALUE(result != TUTTI_INVALID_ARGUMENT, text);
  fail_with(result == TUTTI_TIMEOUT ? "a timeout has passed: " + text : text);
}

std::exception_ptr failure_of(tutti_result result) {
  try {
    fail(result);
  } catch (...) {
    return std::current_exception();
  }
}

void fail_with(const std::string& text) { C10_THROW_ERROR(DistBackendError, text); }

}  // namespace tutti_torch
