#pragma once

#include "tutti/error.h"

namespace tutti::detail {

class Operation;

/// The failure with which `operation` ends for `reason`: it says which call failed, and how far that had come.
Error failure_of(const Operation& operation, const Error& reason);

}  // namespace tutti::detail
