#include "cli/base/own_path.h"

#include <unistd.h>

#include <array>

#include "tutti/error.h"

namespace tutti::cli {

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) throw Error{ErrorCode::system, "cannot find this program (/proc/self/exe)"};
  return {path.data(), static_cast<std::size_t>(length)};
}

}  // namespace tutti::cli
