#pragma once

#include <string>
#include <string_view>

namespace tutti::cli {

/// A lesson for a terminal of 80 columns: without marks of emphasis, with wrapped paragraphs, with code as it is, and
/// with a description of each picture and the command that draws it.
std::string lesson_as_text(std::string_view markdown);

}  // namespace tutti::cli
