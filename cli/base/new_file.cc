#include "cli/base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

namespace tutti::cli {

NewFile make_new_file(const std::string& path) {
  std::string name = path;
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return {Descriptor{::open(path.c_str(), O_WRONLY | O_CLOEXEC)}, name};  // of a folder: EISDIR
  int descriptor = -1;
  for (int i = 0; (descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) < 0; ++i) {
    if (errno != EEXIST) break;
    name = fmt::format("{}.{}", path, i);
  }
  return {Descriptor{descriptor}, name};
}

}  // namespace tutti::cli
