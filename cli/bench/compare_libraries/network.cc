#include "cli/bench/compare_libraries/network.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "lib/base/descriptor.h"

namespace tutti::cli::versus {
namespace {

constexpr const char* congestion_file = "/proc/sys/net/ipv4/tcp_congestion_control";

std::string congestion() {
  std::ifstream file{congestion_file};
  std::string name = "unknown";
  file >> name;
  return name;
}

bool write(const char* path, const std::string& text) {
  std::ofstream file{path};
  return static_cast<bool>(file << text << std::flush);
}

bool loopback_up() {
  const Descriptor any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  if (::ioctl(any.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  return ::ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

/// As root directly; otherwise within a user namespace, in which this user keeps its identity.
bool unshare_network() {
  const auto user = ::geteuid();
  const auto group = ::getegid();
  if (::unshare(CLONE_NEWNET) == 0) return true;
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  return write("/proc/self/setgroups", "deny") && write("/proc/self/uid_map", fmt::format("{0} {0} 1", user)) &&
         write("/proc/self/gid_map", fmt::format("{0} {0} 1", group));
}

}  // namespace

std::string enter_own_network() {
  if (!unshare_network())
    return fmt::format("no network namespace of its own ({}): the system's applies, congestion control {}",
                       std::strerror(errno), congestion());
  if (!loopback_up())
    return fmt::format("network namespace of its own, but its loopback stays down ({})", std::strerror(errno));
  write(congestion_file, "reno");
  return fmt::format("network namespace of its own, congestion control {}", congestion());
}

}  // namespace tutti::cli::versus
