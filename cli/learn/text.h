#pragma once

#include <string>
#include <string_view>

namespace tutti::cli {

/// A lesson for a terminal of 80 columns: marks of emphasis gone, paragraphs wrapped, blocks of code as they are, and
/// in place of a picture what it shows and the command that draws it.
std::string lesson_as_text(std::string_view markdown);

}  // namespace tutti::cli
