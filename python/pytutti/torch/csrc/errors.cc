#include "errors.h"

#include <c10/util/Exception.h>

#include "interrupts.h"

namespace tutti_torch {

namespace {

[[noreturn]] void throw_failure(tutti_result result) {
  const std::string text = tutti_last_error();
  TORCH_CHECK_VALUE(!is_wrong_call(result), text);
  fail_with(result == TUTTI_TIMEOUT ? timeout_prefix + text : text);
}

}  // namespace

void fail(tutti_result result) {
  rethrow_interrupt();
  throw_failure(result);
}

std::exception_ptr failure_of(tutti_result result) {
  try {
    throw_failure(result);
  } catch (...) {
    return std::current_exception();
  }
}

void fail_with(const std::string& text) { C10_THROW_ERROR(DistBackendError, text); }

}  // namespace tutti_torch
