#pragma once

#include <cstdint>

namespace tutti::testing {

/// Counts the system calls of the thread that makes it, and executes them: the kernel passes each to us first
/// (prctl(2), PR_SET_SYSCALL_USER_DISPATCH). Calls that the vDSO serves without the kernel, such as reading clocks, do
/// not count. One object at a time per thread.
class SystemCallCount {
 public:
  SystemCallCount();
  ~SystemCallCount();
  SystemCallCount(const SystemCallCount&) = delete;

  /// False: this kernel, or a sandbox around this process, does not offer that.
  bool works() const { return works_; }
  std::uint64_t count() const;
  /// Those among them that yielded the core.
  std::uint64_t yield_count() const;
  /// The number of the last system call.
  int last() const;

 private:
  bool works_ = false;
};

}  // namespace tutti::testing
