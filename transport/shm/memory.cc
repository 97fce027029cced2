// Rings in memfds: memory that has no name, cannot outlive its users and shows up in no directory.

#include "transport/shm/memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "lib/base/refusal.h"
#include "lib/base/system_calls.h"

namespace tutti::transport {
namespace {

constexpr int size_is_final = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr unsigned never_executable = 0x8;  // MFD_NOEXEC_SEAL of Linux 6.3, which systems may insist on

[[noreturn]] void refuse(const char* what, int error) {
  throw Error(ErrorCode::system, fmt::format("cannot {} {} KiB of shared memory: {}. TUTTI_TRANSPORT=tcp does without",
                                             what, sizeof(RingMemory) / 1024, refusal(error)));
}

Descriptor make_memfd() {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor made(system_calls::memfd_create("tutti-ring", flags | never_executable));
  if (!made && errno == EINVAL) made = Descriptor(system_calls::memfd_create("tutti-ring", flags));
  if (!made) refuse("create", errno);
  return made;
}

void* map(const Descriptor& descriptor) {
  return system_calls::mmap(sizeof(RingMemory), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get());
}

}  // namespace

MappedRing::~MappedRing() {
  if (memory_) ::munmap(memory_, sizeof(RingMemory));
}

NewRing make_ring() {
  Descriptor descriptor = make_memfd();
  // Reserved now: where memory is short we get an error here instead of a signal at some later access.
  int error = 0;
  do error = system_calls::fallocate(descriptor.get(), sizeof(RingMemory));
  while (error == EINTR);
  if (error != 0) refuse("reserve", error);
  if (::fcntl(descriptor.get(), F_ADD_SEALS, size_is_final | F_SEAL_SEAL) != 0) refuse("seal", errno);
  void* where = map(descriptor);
  if (where == MAP_FAILED) refuse("map", errno);
  return {MappedRing(::new (where) RingMemory), std::move(descriptor)};
}

std::variant<MappedRing, std::string> map_ring(const Descriptor& descriptor) {
  struct ::stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return fmt::format("no descriptor: {}", std::strerror(errno));
  if (status.st_size != static_cast<off_t>(sizeof(RingMemory)))
    return fmt::format("{} bytes instead of {}", status.st_size, sizeof(RingMemory));
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & size_is_final) != size_is_final) return "its size could still change";
  void* where = map(descriptor);
  if (where == MAP_FAILED) return fmt::format("cannot map it: {}", std::strerror(errno));
  return MappedRing(std::launder(static_cast<RingMemory*>(where)));
}

}  // namespace tutti::transport
