#include "lib/base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "lib/base/descriptor.h"

namespace tutti {
namespace {

std::string problem_of(int error) {
  switch (error) {
    case ENOENT:
      return "no such file";
    case EISDIR:
      return "it is a folder";
    case EACCES:
      return "permission denied";
    default:
      return std::system_category().message(error);
  }
}

}  // namespace

TextFile read_text_file(const std::string& path) {
  TextFile file;
  const Descriptor from{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (!from) return {{}, problem_of(errno)};
  std::array<char, 64 * 1024> bytes;
  for (;;) {
    const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
    if (got == 0) break;
    if (got > 0)
      file.text.append(bytes.data(), static_cast<std::size_t>(got));
    else if (errno != EINTR)
      return {{}, problem_of(errno)};
  }
  if (file.text.empty()) file.problem = "it is empty";
  return file;
}

}  // namespace tutti
