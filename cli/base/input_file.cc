#include "cli/base/input_file.h"

#include <fmt/core.h>

#include "lib/base/text_file.h"
#include "tutti/error.h"

namespace tutti::cli {

std::string read_input(std::string_view who, const std::string& path, std::string_view remedy) {
  TextFile file = read_text_file(path);
  if (file.problem.empty()) return std::move(file.text);
  throw Error{ErrorCode::invalid_argument,
              fmt::format("{}: cannot read {}: {}{}{}", who, path, file.problem, remedy.empty() ? "" : "; ", remedy)};
}

}  // namespace tutti::cli
