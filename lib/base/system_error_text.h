#pragma once

#include <string>

namespace tutti {

/// What the system said with `error` (an errno) and what can be done about it, as the end of a sentence:
/// "Too many open files; raise the limit of open files (ulimit -n)".
std::string refusal(int error);

}  // namespace tutti
