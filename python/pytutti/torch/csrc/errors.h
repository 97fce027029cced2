#pragma once

#include <tutti/c.h>

#include <exception>
#include <string>

/// What the C interface returns, as exceptions that PyTorch turns into Python's.
namespace tutti_torch {

/// Throws what has just failed in this thread: torch.distributed.DistBackendError, or ValueError where the call itself
/// was wrong and nothing was sent, or what a handler of a signal has raised meanwhile.
[[noreturn]] void fail(tutti_result result);

/// Whether the call itself was wrong, so that nothing was sent.
inline bool is_wrong_call(tutti_result result) {
  return result == TUTTI_INVALID_ARGUMENT || result == TUTTI_UNSUPPORTED;
}

inline void check(tutti_result result) {
  if (result != TUTTI_OK) [[unlikely]]
    fail(result);
}

/// What has failed as an exception for all who wait, in whichever thread: a signal's is not among them.
std::exception_ptr failure_of(tutti_result result);

/// How errors of a timeout begin.
inline constexpr const char* timeout_prefix = "a timeout has passed: ";

/// A failure that this backend finds itself.
[[noreturn]] void fail_with(const std::string& text);

}  // namespace tutti_torch
