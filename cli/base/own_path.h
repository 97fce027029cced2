#pragma once

#include <string>

namespace tutti::cli {

/// The file of this program. Throws Error{system}.
std::string own_path();

}  // namespace tutti::cli
