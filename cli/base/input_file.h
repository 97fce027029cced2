#pragma once

#include <string>
#include <string_view>

namespace tutti::cli {

/// The contents of a file that a user named. Throws Error{invalid_argument} "`who`: cannot read PATH: REASON;
/// `remedy`", also for one that is empty.
std::string read_input(std::string_view who, const std::string& path, std::string_view remedy = {});

}  // namespace tutti::cli
