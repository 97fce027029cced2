#pragma once

#include <sched.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/base/inherited_signals.h"
#include "lib/base/descriptor.h"

namespace tutti::cli {

/// The child's program and environment. Everything is prepared before the fork: after it only system calls are safe.
struct Start {
  std::string path;  ///< from find_program()
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< "NAME=value"
  int input = -1;                        ///< becomes descriptor 0
  std::vector<int> inherited;            ///< stay open under their numbers
  std::optional<cpu_set_t> cores;
  const InheritedSignals* signals = nullptr;  ///< signal state of the program; null: that of this process
};

struct Process {
  pid_t pid = -1;  ///< also its process group
  Descriptor out;
  Descriptor err;
};

/// Why a program cannot be started, with the exit code that shells use for that.
struct StartError {
  int exit_code;
  std::string message;
};

/// The file that a shell would run for `name`. Throws StartError.
std::string find_program(const std::string& name);

/// Starts the program in a process group of its own. The kernel kills it if this thread ends. It inherits the
/// descriptors of our caller; those that we open ourselves are closed by exec. Descriptors 0 to 2 must be open. Throws
/// StartError.
Process start(const Start& what);

/// Reaps a child and returns its status as waitpid() does; empty while it runs. A child that was reaped elsewhere
/// counts as having exited with code 1.
std::optional<int> status_if_ended(pid_t pid);

/// A process that outlives this one by a moment: when this process ends, for whatever reason, it kills the process
/// groups that are still on its list. (The kernel's parent-death signal reaches the ranks, but not their children.)
class Guardian {
 public:
  Guardian();
  ~Guardian();
  void watch(pid_t group);
  void forget(pid_t group);
  pid_t pid() const { return pid_; }

 private:
  void tell(pid_t group);

  Descriptor line_;
  pid_t pid_ = -1;
};

}  // namespace tutti::cli
