#include "lib/base/system_calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

namespace tutti::system_calls {
namespace {

struct Refusal {
  SystemCall call;
  int error;
  unsigned nth;
};

struct Refusals {
  std::mutex mutex;
  std::vector<Refusal> list;
  std::array<unsigned, system_call_count> made{};  // calls so far, by kind
};

std::atomic<bool> any{false};

/// Made at the first refusal and never destroyed, since threads may call until the process has ended.
Refusals& refusals() {
  static Refusals& made = *new Refusals;
  return made;
}

/// Whether this call is to fail; `errno` is set.
bool refused(SystemCall call) {
  if (!any.load(std::memory_order_acquire)) return false;
  Refusals& all = refusals();
  const std::lock_guard lock{all.mutex};
  const unsigned number = ++all.made[static_cast<std::size_t>(call)];
  for (const Refusal& refusal : all.list) {
    if (refusal.call != call || (refusal.nth != 0 && refusal.nth != number)) continue;
    errno = refusal.error;
    return true;
  }
  return false;
}

bool is_too_large(off_t size) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(size);
}

}  // namespace

void refuse(SystemCall call, int error, unsigned nth) {
  Refusals& all = refusals();
  const std::lock_guard lock{all.mutex};
  all.list.push_back({call, error, nth});
  any.store(true, std::memory_order_release);
}

void refuse_none() {
  Refusals& all = refusals();
  const std::lock_guard lock{all.mutex};
  all.list.clear();
  all.made = {};
  any.store(false, std::memory_order_release);
}

int memfd_create(const char* name, unsigned flags) {
  return refused(SystemCall::memfd) ? -1 : ::memfd_create(name, flags);
}

int fallocate(int descriptor, off_t offset, off_t size) {
  if (refused(SystemCall::fallocate)) return errno;
  return is_too_large(offset + size) ? EFBIG : ::posix_fallocate(descriptor, offset, size);
}

int ftruncate(int descriptor, off_t size) {
  if (!is_too_large(size)) return ::ftruncate(descriptor, size);
  errno = EFBIG;
  return -1;
}

void* mmap(std::size_t length, int protection, int flags, int descriptor) {
  return refused(SystemCall::mmap) ? MAP_FAILED : ::mmap(nullptr, length, protection, flags, descriptor, 0);
}

int socket(int family, int type, int protocol) {
  return refused(SystemCall::socket) ? -1 : ::socket(family, type, protocol);
}

int accept4(int listener, int flags) {
  return refused(SystemCall::accept) ? -1 : ::accept4(listener, nullptr, nullptr, flags);
}

ssize_t process_vm_readv(pid_t pid, const iovec& to, const iovec& from) {
  return refused(SystemCall::process_vm_readv) ? -1 : ::process_vm_readv(pid, &to, 1, &from, 1, 0);
}

}  // namespace tutti::system_calls
