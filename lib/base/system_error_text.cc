#include "lib/base/system_error_text.h"

#include <cerrno>
#include <string_view>
#include <system_error>

namespace tutti {
namespace {

std::string_view remedy_for(int error) {
  switch (error) {
    case EMFILE:
      return "; raise the limit of open files (ulimit -n)";
    case ENFILE:
      return "; the whole system has too many files open (sysctl fs.file-max)";
    case ENOMEM:
    case ENOBUFS:
      return "; free memory, or raise the limit of this process or its container (ulimit -v, memory cgroup)";
    case ENOSPC:
      return "; free memory, or raise the limit of shared memory of this container";
    case EFBIG:
      return "; raise the limit of file sizes (ulimit -f)";
    case EAGAIN:
      return "; threads or memory of this user or container are used up (ulimit -u, ulimit -v, pids cgroup)";
    case EPERM:
    case EACCES:
    case ENOSYS:
      return "; allow it in the sandbox or container (seccomp profile, LSM)";
    case EADDRNOTAVAIL:
      return "; choose an address that this host has (TUTTI_SOCKET_IFNAME)";
    default:
      return "";
  }
}

}  // namespace

std::string refusal(int error) { return std::system_category().message(error) + std::string{remedy_for(error)}; }

}  // namespace tutti
