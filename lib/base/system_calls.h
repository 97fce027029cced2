#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

// The system calls that a host may refuse to a rank without a fault of the rank: too little memory, too few
// descriptors, no permission. All code for communication between ranks makes them through these functions, so that a
// test or a user can inject such a refusal (`refuse:call=memfd,errno=EMFILE` in TUTTI_INJECT) and see the reaction of
// the job.
//
// Refusals apply to the whole process, as the limits that they simulate do. Without refusals, a call costs one load
// more. Threading: any.

namespace tutti {

enum class SystemCall : std::uint8_t { memfd, fallocate, mmap, socket, accept, process_vm_readv };
inline constexpr int system_call_count = 6;

namespace system_calls {

/// From now on the `nth` call (from 1; 0: every call) of this kind fails with `error`. Adds to earlier ones.
void refuse(SystemCall call, int error, unsigned nth);
/// Removes all refusals.
void refuse_none();

// Like the system's, errno included; fallocate is posix_fallocate() and returns the error. A call that would exceed
// RLIMIT_FSIZE fails with EFBIG, for which the system would kill the process (SIGXFSZ).
int memfd_create(const char* name, unsigned flags);
int fallocate(int descriptor, off_t offset, off_t size);
int ftruncate(int descriptor, off_t size);
void* mmap(std::size_t length, int protection, int flags, int descriptor);
int socket(int family, int type, int protocol);
int accept4(int listener, int flags);
ssize_t process_vm_readv(pid_t pid, const iovec& to, const iovec& from);

}  // namespace system_calls
}  // namespace tutti
