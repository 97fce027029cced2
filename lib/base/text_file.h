#pragma once

#include <string>

namespace tutti {

/// What is in a file that a user named, or why nothing is.
struct TextFile {
  std::string text;
  std::string problem;  ///< "no such file", "it is a folder", "permission denied", "it is empty" ...; empty: none
};

TextFile read_text_file(const std::string& path);

}  // namespace tutti
