#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "tutti/error.h"

namespace tutti::cli {

/// Output that was requested could not be written; main() returns exit_output for it.
class OutputError : public Error {
 public:
  /// Its text is "bench cannot write x.json" with the reason and a remedy. `error` is an errno; `who` may be empty.
  OutputError(std::string_view who, std::string_view where, int error);
  /// An error of the library, which says all of this itself.
  explicit OutputError(const Error& error);
};

/// Call it first in main(). Opens a placeholder for each closed standard descriptor. Otherwise the next file would get
/// its number, and with it the text for standard output. Writing there remains an error.
void hold_standard_descriptors();

/// For work whose only result goes to standard output: throws OutputError if that was closed by the parent process.
void require_output(std::string_view who);
/// For work that ends with a file: throws OutputError if no file can be created in its folder. An empty path is fine.
void require_folder(std::string_view who, const std::string& path);
/// Makes the folder and those that it lies in. Throws OutputError.
void make_folder(std::string_view who, const std::string& path);

/// Prints to standard output. Throws OutputError. (fmt::print() throws std::system_error, which main() treats alike.)
void print_text(std::string_view text);
/// Writes the text printed so far. Throws OutputError.
void flush_output();
/// Prints to standard error. Never throws: a failure changes the exit code, see end_output().
void say_error(const std::string& text);

/// Writes all of it; false: errno has the reason.
bool write_all(int descriptor, std::string_view content);
/// Creates or overwrites the file. Throws OutputError, which names it.
void write_file(std::string_view who, const std::string& path, std::string_view content);

/// Call it last in main(): the exit code of a program that would return `code`. If some output could not be written, it
/// is never exit_success, and an error is printed unless that has happened. A closed pipe is reported only by the exit
/// code of SIGPIPE, as in other programs.
int end_output(int code);

}  // namespace tutti::cli
