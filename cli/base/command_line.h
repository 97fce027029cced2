#pragma once

#include <string_view>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tutti::cli {

/// Parses the words of the subcommand `who` ("plan"). False: they ask for help, which has been printed. Throws
/// Error{invalid_argument} that says which word is wrong, and what would be right.
bool parse_command_line(CLI::App& app, int argc, char** argv, std::string_view who);

/// Says so for an error of CLI11's.
[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error, std::string_view who);

}  // namespace tutti::cli
