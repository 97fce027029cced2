#include "tests/support/system_call_count.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

namespace tutti::testing {

// ThreadSanitizer blocks all signals around some calls. A system call that cannot be passed to us then ends the
// process.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
namespace {

constexpr char allow = 0;
constexpr char block = 1;

thread_local volatile char selector = allow;
thread_local volatile std::uint64_t system_calls = 0;
thread_local volatile std::uint64_t yields = 0;
thread_local volatile int last_call = -1;

void on_call(int, siginfo_t* info, void* opaque) {
  selector = allow;
  auto& registers = static_cast<ucontext_t*>(opaque)->uc_mcontext.gregs;
  system_calls = system_calls + 1;
  if (info->si_syscall == SYS_sched_yield) yields = yields + 1;
  last_call = info->si_syscall;
  long result = 0;
  register long r10 asm("r10") = registers[REG_R10];
  register long r8 asm("r8") = registers[REG_R8];
  register long r9 asm("r9") = registers[REG_R9];
  asm volatile("syscall"
               : "=a"(result)
               : "0"(static_cast<long>(info->si_syscall)), "D"(registers[REG_RDI]), "S"(registers[REG_RSI]),
                 "d"(registers[REG_RDX]), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  registers[REG_RAX] = result;
  selector = block;
}

/// The kernel's view of a handler: the C library keeps the return path to itself.
struct KernelAction {
  void* handler;
  unsigned long flags;
  void* way_back;
  unsigned long mask;
};

/// The handler returns by a system call, the only one that must not be passed to the handler.
const void* way_back_of_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_call;
  action.sa_flags = SA_SIGINFO;
  KernelAction known{};
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return nullptr;
  if (::syscall(SYS_rt_sigaction, SIGSYS, nullptr, &known, sizeof known.mask) != 0) return nullptr;
  return known.way_back;
}

}  // namespace

SystemCallCount::SystemCallCount() {
  static const void* const way_back = way_back_of_handler();
  constexpr unsigned long length = 16;
  system_calls = 0;
  yields = 0;
  last_call = -1;
  works_ = way_back != nullptr &&
           ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, way_back, length, &selector) == 0;
  if (works_) selector = block;
}

SystemCallCount::~SystemCallCount() {
  selector = allow;
  if (works_) ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
}

std::uint64_t SystemCallCount::count() const { return system_calls; }
std::uint64_t SystemCallCount::yield_count() const { return yields; }
int SystemCallCount::last() const { return last_call; }

#else

SystemCallCount::SystemCallCount() = default;
SystemCallCount::~SystemCallCount() = default;
std::uint64_t SystemCallCount::count() const { return 0; }
std::uint64_t SystemCallCount::yield_count() const { return 0; }
int SystemCallCount::last() const { return -1; }

#endif

}  // namespace tutti::testing
