// Tests with real processes whether ranks on one host can use each other's memory.

#include <errno.h>
#include <fmt/core.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "cli/doctor/doctor.h"
#include "cli/measure/median.h"
#include "lib/base/descriptor.h"
#include "lib/base/net/socket.h"
#include "lib/base/system_calls.h"
#include "transport/shm/unix_socket.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

constexpr int patience_ms = 1000;
constexpr std::uint64_t pattern = 0x7475747469212121;

/// Runs `body` in a child process that dies with this one; its result is the exit code.
pid_t in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(5);  // limits the time in any case
  ::_exit(body());
}

/// Exit code of a child; 255 if a signal killed it.
int result_of(pid_t child) {
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 255;
  return WEXITSTATUS(status);
}

bool readable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, patience_ms) == 1;
}

/// In the other process: asks for the segment and writes the pattern into it.
int fill_segment(const std::string& name) {
  Descriptor socket;
  if (transport::connect_unix(name, socket) != transport::Attempt::done || !readable(socket.get())) return 1;
  std::array<std::byte, 1> byte{};
  const transport::Received received = transport::receive_with_descriptor(socket, byte);
  if (received.attempt != transport::Attempt::done) return 1;
  void* const memory =
      ::mmap(nullptr, sizeof pattern, PROT_READ | PROT_WRITE, MAP_SHARED, received.descriptor.get(), 0);
  if (memory == MAP_FAILED) return 2;
  ::memcpy(memory, &pattern, sizeof pattern);
  return 0;
}

/// Throws Error{system}, or returns the step that failed; empty if it works.
std::string try_segment() {
  const Descriptor segment{system_calls::memfd_create("tutti-doctor", MFD_CLOEXEC)};
  if (!segment || ::ftruncate(segment.get(), 4096) != 0) return fmt::format("memfd_create: {}", ::strerror(errno));
  const Descriptor listener = net::listen_at(net::any_unix_address(), {});
  const pid_t child = in_child([name = net::local_address(listener).name()] { return fill_segment(name); });
  const Descriptor peer = readable(listener.get()) ? net::accept_next(listener) : Descriptor{};
  constexpr std::array<std::byte, 1> byte{};
  const bool sent = peer && transport::send_with_descriptor(peer, byte, segment) == transport::Attempt::done;
  const int result = result_of(child);
  if (!sent) return "the other process could not connect";
  if (result != 0) return result == 2 ? "the other process could not map the segment" : "the other process failed";
  std::uint64_t found = 0;
  if (::pread(segment.get(), &found, sizeof found, 0) != sizeof found || found != pattern) return "the bytes differ";
  return {};
}

Finding segments() {
  std::string failure;
  try {
    failure = try_segment();
  } catch (const Error& error) {
    failure = error.what();
  }
  return {.level = failure.empty() ? Level::ok : Level::warn,
          .what = "shared memory",
          .found = failure.empty() ? "works (memfd, passed to another process over an abstract Unix socket)" : failure,
          .remedy =
              "ranks of one host must share a network namespace and may not be forbidden memfd_create or "
              "SCM_RIGHTS by a sandbox; until then they use TCP"};
}

std::string ptrace_scope() {
  std::string scope;
  std::ifstream{"/proc/sys/kernel/yama/ptrace_scope"} >> scope;
  return scope;
}

/// Ranks are siblings, so the test uses siblings: a parent often has more rights.
Finding cross_memory() {
  static const std::uint64_t here = pattern;  // at the same address in both children
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return {.level = Level::warn, .what = "single copy", .found = "no socket pair", .remedy = "raise ulimit -n"};
  }
  Descriptor ours{ends[0]}, theirs{ends[1]};
  const pid_t owner = in_child([&] {
    ours.reset();
    char byte = 'r';
    return static_cast<int>(::send(theirs.get(), &byte, 1, MSG_NOSIGNAL) != 1 || ::read(theirs.get(), &byte, 1) != 0);
  });
  theirs.reset();
  readable(ours.get());
  const pid_t reader = in_child([&] {
    std::uint64_t found = 0;
    iovec to{&found, sizeof found};
    iovec from{const_cast<std::uint64_t*>(&here), sizeof here};
    if (system_calls::process_vm_readv(owner, to, from) != sizeof found) return errno;
    return found == pattern ? 0 : EIO;
  });
  const int result = result_of(reader);
  ours.reset();  // lets the owner end
  result_of(owner);
  Finding finding{.what = "single copy", .found = {}, .remedy = {}};
  if (result == 0) {
    finding.found = "works (process_vm_readv between siblings)";
    return finding;
  }
  finding.level = Level::warn;
  finding.found = fmt::format("process_vm_readv: {}; ranks cannot copy out of each other's memory", ::strerror(result));
  const std::string scope = ptrace_scope();
  finding.remedy = scope.empty() || scope == "0"
                       ? "in a container --cap-add SYS_PTRACE, or a seccomp profile that allows process_vm_readv"
                       : "sysctl kernel.yama.ptrace_scope=0 (it is " + scope + ")";
  return finding;
}

using Word = std::atomic<std::uint32_t>;

long futex(Word& word, int operation, std::uint32_t value, const timespec* limit) {
  return ::syscall(SYS_futex, &word, operation, value, limit, nullptr, 0);
}

/// Waits asleep until the word is `value`; false after a second.
bool sleep_until(Word& word, std::uint32_t value) {
  const timespec limit{1, 0};
  for (std::uint32_t seen = word.load(); seen != value; seen = word.load()) {
    if (futex(word, FUTEX_WAIT, seen, &limit) != 0 && errno == ETIMEDOUT) return false;
  }
  return true;
}

void set_and_wake(Word& word, std::uint32_t value) {
  word.store(value);
  futex(word, FUTEX_WAKE, 1, nullptr);
}

/// Microseconds of each round trip between two sleeping processes; empty if it does not work.
std::vector<double> wake_up_times() {
  constexpr std::uint32_t rounds = 200;
  void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  Word& ping = *new (memory) Word{0};
  Word& pong = *new (static_cast<char*>(memory) + 64) Word{0};
  const pid_t child = in_child([&] {
    for (std::uint32_t i = 1; i <= rounds; ++i) {
      if (!sleep_until(ping, i)) return 1;
      set_and_wake(pong, i);
    }
    return 0;
  });
  std::vector<double> times;
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    set_and_wake(ping, i);
    if (!sleep_until(pong, i)) break;
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  if (result_of(child) != 0) times.clear();
  ::munmap(memory, 4096);
  std::sort(times.begin(), times.end());
  return times;
}

double yield_time() {
  constexpr int rounds = 2000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) ::sched_yield();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / rounds;
}

}  // namespace

std::vector<Finding> check_sharing() { return {segments(), cross_memory()}; }

std::vector<Finding> check_waiting() {
  const std::vector<double> times = wake_up_times();
  Finding wake{.what = "waking a sleeper", .found = {}, .remedy = {}};
  if (times.empty()) {
    wake.level = Level::warn;
    wake.found = "two processes could not wake each other through a futex in shared memory";
    wake.remedy = "allow the futex system call and shared anonymous memory in the sandbox";
  } else {
    wake.found = fmt::format("{:.1f} us there and back (median of {}; slowest {:.0f} us)", measure::median(times),
                             times.size(), times.back());
  }
  return {wake, {.what = "yielding the core", .found = fmt::format("{:.2f} us", yield_time()), .remedy = {}}};
}

}  // namespace tutti::cli
