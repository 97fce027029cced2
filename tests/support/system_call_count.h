#pragma once

#include <cstdint>

namespace tutti::testing {

/// Counts the system calls of the thread that makes it, and lets them happen: the kernel hands each to us first
/// (prctl(2), PR_SET_SYSCALL_USER_DISPATCH). What the vDSO does without the kernel, such as reading clocks, is none.
/// One at a time per thread.
class SystemCallCount {
 public:
  SystemCallCount();
  ~SystemCallCount();
  SystemCallCount(const SystemCallCount&) = delete;

  /// False: this kernel, or who locked this process in, does not offer that.
  bool works() const { return works_; }
  std::uint64_t count() const;
  /// Those among them that gave the core to whoever wanted it.
  std::uint64_t yield_count() const;
  /// The number of the last one.
  int last() const;

 private:
  bool works_ = false;
};

}  // namespace tutti::testing
