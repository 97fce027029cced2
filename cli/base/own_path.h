#pragma once

#include <string>

namespace tutti::cli {

/// Path of this executable. Throws Error{system}.
std::string own_path();

}  // namespace tutti::cli
