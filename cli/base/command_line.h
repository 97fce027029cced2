#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tutti::cli {

/// Parses the words of the subcommand `who` ("plan"). False: help was requested and has been printed. Throws
/// Error{invalid_argument} that quotes the wrong word and says what would be right.
bool parse_command_line(CLI::App& app, int argc, char** argv, std::string_view who);

/// Throws the same for an option whose value is the empty word, as an unset variable of a shell leaves it: none means
/// anything.
void refuse_empty_values(const CLI::App& app, std::string who);

/// Throws the same for an error that CLI11 has found in `words`.
[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words,
                         std::string_view who);

}  // namespace tutti::cli
