// Reads about processes in /proc.

#include "rendezvous/process.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "lib/base/host.h"

namespace tutti::rendezvous {
namespace {

std::string read_whole(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
}

std::string read_link(const std::string& path) {
  std::error_code failed;
  return std::filesystem::read_symlink(path, failed).string();
}

/// The fields of /proc/<pid>/stat from the third on: state, parent, ..., start time. The second field, the program's
/// name, may contain blanks and brackets.
struct Stat {
  char state = 'X';
  int parent = 0;
  std::uint64_t start = 0;
};

std::optional<Stat> read_stat(int pid) {
  const std::string text = read_whole(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest{text.substr(name_end + 1)};
  Stat stat;
  rest >> stat.state >> stat.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) rest >> skipped;
  rest >> stat.start;
  if (!rest) return std::nullopt;
  return stat;
}

std::string scope_of_this_host() {
  std::string boot = read_whole("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return boot + "/" + read_link("/proc/self/ns/pid");
}

Process process_here(int pid) {
  const auto stat = read_stat(pid);
  return {pid, stat ? stat->start : 0, scope_of_this_host(), host_name()};
}

/// Empty if the environment of that process must not be read.
std::optional<bool> has_variable(int pid, std::string_view variable) {
  const std::string environment = read_whole(fmt::format("/proc/{}/environ", pid));
  if (environment.empty()) return std::nullopt;
  const std::string wanted = fmt::format("{}=", variable);
  for (std::size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
    if (environment.compare(at, wanted.size(), wanted) == 0) return true;
    if (environment.find('\0', at) == std::string::npos) break;
  }
  return false;
}

/// The kernel's name of the socket that listens on `port`: "socket:[12345]".
std::string listening_socket(std::uint16_t port) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table{path};
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream fields{line};
      std::string slot, local, remote, state, skipped, inode;
      fields >> slot >> local >> remote >> state;
      for (int field = 4; field < 9; ++field) fields >> skipped;
      fields >> inode;
      constexpr const char* listening = "0A";
      if (state == listening && local.ends_with(fmt::format(":{:04X}", port))) return "socket:[" + inode + "]";
    }
  }
  return {};
}

}  // namespace

Process this_process() { return process_here(::getpid()); }

bool has_ended(const Process& process) {
  if (process.scope != scope_of_this_host()) return false;
  const auto stat = read_stat(process.pid);
  if (!stat) return ::kill(process.pid, 0) != 0 && errno == ESRCH;
  return stat->start != process.start || stat->state == 'Z' || stat->state == 'X';
}

std::string describe(const Process& process) { return fmt::format("process {} on {}", process.pid, process.host); }

std::string encode(const Process& process) {
  return fmt::format("{} {} {} {}", process.pid, process.start, process.scope, process.host);
}

std::optional<Process> decode_process(std::string_view text) {
  std::istringstream fields{std::string{text}};
  Process process;
  if (fields >> process.pid >> process.start >> process.scope >> process.host) return process;
  return std::nullopt;
}

Process launcher_process(std::string_view variable) {
  int pid = ::getppid();
  while (pid > 1) {
    const auto has = has_variable(pid, variable);
    if (has != true) return process_here(pid);
    const auto stat = read_stat(pid);
    pid = stat ? stat->parent : 0;
  }
  return {};
}

std::string holder_of_port(std::uint16_t port) {
  const std::string socket = listening_socket(port);
  if (socket.empty()) return {};
  std::error_code failed;
  for (const auto& process : std::filesystem::directory_iterator{"/proc", failed}) {
    const std::string pid = process.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    for (std::filesystem::directory_iterator it{process.path() / "fd", failed}, end; !failed && it != end;
         it.increment(failed)) {
      if (read_link(it->path().string()) != socket) continue;
      std::string name = read_whole((process.path() / "comm").string());
      while (!name.empty() && name.back() == '\n') name.pop_back();
      return fmt::format("process {} ({})", pid, name);
    }
  }
  return {};
}

}  // namespace tutti::rendezvous
