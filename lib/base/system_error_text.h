#pragma once

#include <string>

namespace tutti {

/// The text of `error` (an errno) and the remedy, as the end of a sentence: "Too many open files; raise the limit of
/// open files (ulimit -n)".
std::string refusal(int error);

}  // namespace tutti
