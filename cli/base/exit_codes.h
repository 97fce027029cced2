#pragma once

#include "tutti/error.h"

namespace tutti::cli {

/// Exit codes of all subcommands; those of nccl-tests, so that scripts written for them keep working.
inline constexpr int exit_success = 0;
inline constexpr int exit_internal = 1;
inline constexpr int exit_library = 3;
inline constexpr int exit_timeout = 4;
inline constexpr int exit_unsupported = 5;
inline constexpr int exit_usage = 6;
inline constexpr int exit_wrong_data = 7;
/// Some output could not be written; EX_IOERR of sysexits.h.
inline constexpr int exit_output = 74;

inline int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return exit_usage;
    case ErrorCode::unsupported:
      return exit_unsupported;
    case ErrorCode::timeout:
      return exit_timeout;
    case ErrorCode::system:
      return exit_internal;
    default:
      return exit_library;
  }
}

}  // namespace tutti::cli
