#pragma once

#include <string>
#include <string_view>

namespace tutti::cli {

/// All of a file that a user named. Throws Error{invalid_argument}, "WHO: cannot read PATH: ...".
std::string read_input(std::string_view who, const std::string& path);

}  // namespace tutti::cli
