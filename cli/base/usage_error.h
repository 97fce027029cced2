#pragma once

#include <string>
#include <string_view>

#include "tutti/error.h"

namespace tutti::cli {

/// Throws for words of the command line; `who` is the subcommand whose help says what would be right.
[[noreturn]] inline void wrong(std::string_view who, const std::string& message) {
  const std::string name{who};
  throw Error{ErrorCode::invalid_argument, name + ": " + message + " (tutti " + name + " --help)"};
}

}  // namespace tutti::cli
