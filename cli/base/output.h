#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "tutti/error.h"

namespace tutti::cli {

/// What this program was asked for could not be written: main() makes exit_output of it.
class OutputError : public Error {
 public:
  /// "bench: cannot write x.json: No space left on device; ...". `error` is an errno; `who` may be empty.
  OutputError(std::string_view who, std::string_view where, int error);
};

/// Call it first in main(). A standard descriptor that is closed gets something to hold its number, or the next file
/// that is opened would take it and get what is meant for standard output. Writing there stays an error.
void hold_standard_descriptors();

/// Before work that has standard output as its only result: throws OutputError when that was closed by who started us.
void require_output(std::string_view who);
/// Before work that ends with a file: throws OutputError when its folder takes none. An empty path is fine.
void require_folder(std::string_view who, const std::string& path);

/// Prints to standard output. Throws OutputError; fmt::print() throws std::system_error, of which main() makes the
/// same.
void print_text(std::string_view text);
/// Writes what was printed so far. Throws OutputError.
void flush_output();
/// Prints to standard error. Never throws: that it could not be written makes the exit code, see end_output().
void say_error(const std::string& text);

/// Writes all of it; false: errno says why not.
bool write_all(int descriptor, std::string_view content);
/// Makes the file anew. Throws OutputError, which names it.
void write_file(std::string_view who, const std::string& path, std::string_view content);

/// Call it last in main(): the exit code of a program that would return `code`. Where something that was printed could
/// not be written that is never exit_success; says so unless somebody has. A reader that left is told by the code of
/// SIGPIPE alone, as by any other program.
int end_output(int code);

}  // namespace tutti::cli
