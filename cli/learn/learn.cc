// `tutti learn`: the command line of the lessons.

#include "cli/learn/learn.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/base/usage_error.h"
#include "cli/learn/lessons.h"
#include "cli/learn/pages.h"
#include "cli/learn/serve.h"
#include "cli/learn/text.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

constexpr const char* learn_examples = R"(Examples:
  tutti learn                  the lessons
  tutti learn 3 | less         read one here
  tutti learn --html lessons   all of them as pages with pictures, in the folder lessons
  tutti learn --serve          ... for a browser on this machine, until Ctrl-C)";

int list_lessons() {
  fmt::print("How processes compute together, one idea per lesson:\n\n");
  int number = 0;
  for (const LessonFile& lesson : lessons_among(lesson_files()))
    fmt::print("  {:2}  {}\n", ++number, lesson_title(lesson));
  fmt::print(
      "\n  tutti learn 1              prints the first here\n"
      "  tutti learn --html DIR     writes all as pages, with their pictures\n"
      "  tutti learn --serve        shows these in a browser on this machine\n");
  return exit_success;
}

int print_lesson(const std::string& word) {
  const auto lessons = lessons_among(lesson_files());
  std::size_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc{} || stop != end || number < 1 || number > lessons.size())
    wrong("learn",
          fmt::format("no lesson \"{}\"; there are 1 to {}, and tutti learn lists them", word, lessons.size()));
  print_text(lesson_as_text(lessons[number - 1].content));
  if (number < lessons.size()) fmt::print("\nNext: tutti learn {}, {}\n", number + 1, lesson_title(lessons[number]));
  return exit_success;
}

/// "file:///tmp/my%20lessons"
std::string address_of(const std::filesystem::path& path) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";  // RFC 3986
  std::string address = "file://";
  for (const char byte : path.string())
    if (plain.find(byte) != std::string_view::npos)
      address += byte;
    else
      address += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
  return address;
}

/// Replaces earlier pages and leaves other files alone.
int write_pages(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  const std::vector<Page> pages = lesson_pages(lesson_files());
  for (const Page& page : pages) {
    const std::string path = (std::filesystem::path{folder} / page.name).string();
    write_file("learn", path, page.content);
  }
  fmt::print("{} pages. Open in a browser:\n  {}\n", pages.size(),
             address_of((std::filesystem::absolute(folder) / "index.html").lexically_normal()));
  return exit_success;
}

}  // namespace

int learn_main(int argc, char** argv) {
  std::string lesson;
  std::string folder;
  bool serve = false;
  CLI::App app{"Eleven short lessons: what collectives do, drawn from the plans and measured here.", "tutti learn"};
  app.set_help_flag("-h,--help", "Show this help");
  app.add_option("LESSON", lesson, "Print the lesson of this number");
  CLI::Option* const pages = app.add_option("--html", folder, "Write all lessons as pages into this folder");
  app.add_flag("--serve", serve, "Serve the pages on 127.0.0.1")->excludes(pages);
  app.footer(learn_examples);
  if (!parse_command_line(app, argc, argv, "learn")) return exit_success;
  if (!lesson.empty() && (serve || !folder.empty()))
    wrong("learn", "a lesson is printed; --html and --serve take all of them");
  if (!pages->empty()) return write_pages(folder);
  if (serve) return serve_pages(lesson_pages(lesson_files()));
  return lesson.empty() ? list_lessons() : print_lesson(lesson);
}

}  // namespace tutti::cli
