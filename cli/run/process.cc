// Processes: one fork per rank, and the guardian that ends the ranks of a killed runner.

#include "cli/run/process.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "cli/base/process_limits.h"
#include "cli/run/run.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorCode::system,
                fmt::format("cannot make a pipe: {}; raise the limit of open files (ulimit -n)", ::strerror(errno)));
  }
  return {Descriptor{ends[0]}, Descriptor{ends[1]}};
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

/// All data that the child needs, prepared before the fork.
struct Prepared {
  const Start& what;
  std::vector<char*> arguments;
  std::vector<char*> shell_arguments;
  std::vector<char*> environment;
  int out;
  int err;
  int report;
  pid_t parent;
};

/// The child's half of start(), in memory that it shares with the parent: system calls only. A failure is sent to the
/// parent as an errno on `report`.
[[noreturn]] void become(const Prepared& child) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(exit_cannot_execute);  // it ended before prctl() took effect
  if (child.what.cores) ::sched_setaffinity(0, sizeof(cpu_set_t), &*child.what.cores);
  give_back_descriptor_limit();
  if (child.what.signals != nullptr) child.what.signals->restore();
  for (const int number : child.what.inherited) ::fcntl(number, F_SETFD, 0);
  int failed = ::dup2(child.what.input, 0) < 0 || ::dup2(child.out, 1) < 0 || ::dup2(child.err, 2) < 0 ? errno : 0;
  if (failed == 0) {
    ::execve(child.what.path.c_str(), child.arguments.data(), child.environment.data());
    failed = errno;
    if (failed == ENOEXEC) {  // a script without #!: run it with sh, as shells do
      ::execve("/bin/sh", child.shell_arguments.data(), child.environment.data());
      failed = errno;
    }
  }
  [[maybe_unused]] const ssize_t told = ::write(child.report, &failed, sizeof failed);
  ::_exit(exit_cannot_execute);
}

bool is_program(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

[[noreturn]] void guard(int line) {
  ::setsid();
  ::prctl(PR_SET_NAME, "tutti-guardian");
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(number, SIG_IGN);
  std::set<pid_t> groups;
  pid_t message = 0;
  while (::read(line, &message, sizeof message) == static_cast<ssize_t>(sizeof message)) {
    if (message > 0)
      groups.insert(message);
    else
      groups.erase(-message);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_program(name)) return name;
    struct stat info;
    if (::stat(name.c_str(), &info) != 0) {
      throw StartError{exit_not_found, fmt::format("cannot start \"{}\": {}", name, ::strerror(errno))};
    }
    const char* why = S_ISDIR(info.st_mode) ? "it is a directory" : "it is not executable (chmod +x)";
    throw StartError{exit_cannot_execute, fmt::format("cannot start \"{}\": {}", name, why)};
  }
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate = (end == 0 ? "." : rest.substr(0, end)) + "/" + name;
    if (!name.empty() && is_program(candidate)) return candidate;
    rest.erase(0, end + 1);
  }
  const std::string hint = is_program("./" + name) ? fmt::format("; did you mean ./{}?", name) : "";
  throw StartError{exit_not_found, fmt::format("cannot start \"{}\": no such program in PATH{}", name, hint)};
}

Process start(const Start& what) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe report = make_pipe();
  std::vector<std::string> shell{"/bin/sh", what.path};
  shell.insert(shell.end(), what.arguments.begin() + 1, what.arguments.end());
  const Prepared child{.what = what,
                       .arguments = pointers(what.arguments),
                       .shell_arguments = pointers(shell),
                       .environment = pointers(what.environment),
                       .out = out.write.get(),
                       .err = err.write.get(),
                       .report = report.write.get(),
                       .parent = ::getpid()};
  // vfork() instead of fork(): a copy of our page tables would cost every rank half a millisecond, and the runner one
  // more. It suspends this thread until the child has called exec, which we would wait for anyway.
  const pid_t pid = ::vfork();
  if (pid == 0) become(child);
  if (pid < 0) throw StartError{exit_cannot_execute, fmt::format("cannot start a process: {}", ::strerror(errno))};
  ::setpgid(pid, pid);  // here and in the child, so that its group is set for both from the start

  report.write.reset();
  int failed = 0;
  if (::read(report.read.get(), &failed, sizeof failed) == static_cast<ssize_t>(sizeof failed)) {
    ::waitpid(pid, nullptr, 0);
    throw StartError{exit_cannot_execute, fmt::format("cannot start \"{}\": {}", what.path, ::strerror(failed))};
  }
  for (const Descriptor* fd : {&out.read, &err.read}) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  return {pid, std::move(out.read), std::move(err.read)};
}

std::optional<int> status_if_ended(pid_t pid) {
  int status = 0;
  const pid_t found = ::waitpid(pid, &status, WNOHANG);
  if (found == pid) return status;
  if (found < 0 && errno == ECHILD) return W_EXITCODE(1, 0);
  return std::nullopt;
}

Guardian::Guardian() {
  Pipe line = make_pipe();
  pid_ = ::fork();
  if (pid_ == 0) {
    line.write.reset();
    guard(line.read.get());
  }
  if (pid_ < 0) throw Error(ErrorCode::system, fmt::format("cannot start a process: {}", ::strerror(errno)));
  line_ = std::move(line.write);
}

Guardian::~Guardian() {
  line_.reset();
  ::waitpid(pid_, nullptr, 0);
}

void Guardian::watch(pid_t group) { tell(group); }
void Guardian::forget(pid_t group) { tell(-group); }

void Guardian::tell(pid_t group) { [[maybe_unused]] const ssize_t told = ::write(line_.get(), &group, sizeof group); }

}  // namespace tutti::cli
