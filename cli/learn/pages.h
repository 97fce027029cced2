#pragma once

#include <string>
#include <vector>

#include "cli/learn/lessons.h"

namespace tutti::cli {

struct Page {
  std::string name;  ///< "index.html"
  std::string content;
};

/// A page that lists the lessons, then one for each, with its pictures embedded. Pages refer only to each other.
std::vector<Page> lesson_pages(std::span<const LessonFile> files);

/// "The ring, step by step", of a file that begins with "# 3. The ring, step by step".
std::string lesson_title(const LessonFile& lesson);

/// Those of the files that are lessons.
std::span<const LessonFile> lessons_among(std::span<const LessonFile> files);

}  // namespace tutti::cli
