#pragma once

#include <span>
#include <string_view>

namespace tutti::cli {

/// A file of docs/learn, as it was when the program was built.
struct LessonFile {
  std::string_view name;  ///< "03-the-ring-step-by-step.md", "03-ring.svg"
  std::string_view content;
};

/// The lessons in order, then the pictures. Made by tools/embed_lessons.py.
std::span<const LessonFile> lesson_files();

}  // namespace tutti::cli
