#pragma once

#include <string>

#include "tutti/error.h"

namespace tutti {

/// For what a user wrote.
[[noreturn]] inline void refuse(const std::string& why) { throw Error{ErrorCode::invalid_argument, why}; }

}  // namespace tutti
