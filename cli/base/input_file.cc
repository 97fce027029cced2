#include "cli/base/input_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tutti/error.h"

namespace tutti::cli {

std::string read_input(std::string_view who, const std::string& path) {
  std::error_code none;
  std::ifstream file{path, std::ios::binary};
  const int error = std::filesystem::is_directory(path, none) ? EISDIR : errno;
  if (error == EISDIR || !file)
    throw Error{ErrorCode::invalid_argument, fmt::format("{}: cannot read {}: {}", who, path, std::strerror(error))};
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace tutti::cli
