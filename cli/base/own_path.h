#pragma once

#include <string>

namespace tutti::tools {

/// The file of this program. Throws Error{system}.
std::string own_path();

}  // namespace tutti::tools
