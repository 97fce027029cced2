// Memfds: memory without a name in any folder, which is freed with its last user.

#include "transport/shm/memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "lib/base/system_calls.h"
#include "lib/base/system_error_text.h"

namespace tutti::transport {
namespace {

constexpr int size_is_final = F_SEAL_SHRINK | F_SEAL_GROW;
/// A signal makes some kernels undo what the call has reserved so far. This much takes a millisecond, so a program
/// whose timer ticks more slowly gets on.
constexpr std::size_t most_at_once = std::size_t{4} << 20;
constexpr unsigned never_executable = 0x8;  // MFD_NOEXEC_SEAL of Linux 6.3, which some systems require

[[noreturn]] void refuse(const char* what, std::size_t bytes, int error) {
  throw Error(ErrorCode::system, fmt::format("cannot {} {} KiB of shared memory: {}. TUTTI_TRANSPORT=tcp avoids it",
                                             what, bytes / 1024, refusal(error)));
}

Descriptor make_memfd(const char* name, std::size_t bytes) {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor made(system_calls::memfd_create(name, flags | never_executable));
  if (!made && errno == EINVAL) made = Descriptor(system_calls::memfd_create(name, flags));
  if (!made) refuse("create", bytes, errno);
  return made;
}

/// Null: `errno` has the reason.
SharedMemory map(const Descriptor& descriptor, std::size_t bytes) {
  void* const where = system_calls::mmap(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get());
  if (where == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(where), [bytes](std::byte* old) { ::munmap(old, bytes); }};
}

}  // namespace

void reserve(const Descriptor& descriptor, std::size_t offset, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now = std::min(bytes - done, most_at_once);
    const int error =
        system_calls::fallocate(descriptor.get(), static_cast<off_t>(offset + done), static_cast<off_t>(now));
    if (error != 0 && error != EINTR) {
      if (done > 0)
        ::fallocate(descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(done));
      refuse("reserve", bytes, error);
    }
    if (error == 0) done += now;
  }
}

bool release(std::byte* begin, std::size_t bytes) noexcept { return ::madvise(begin, bytes, MADV_REMOVE) == 0; }

NewMemory make_memory(const char* name, std::size_t bytes) { return make_memory(name, bytes, bytes); }

NewMemory make_memory(const char* name, std::size_t bytes, std::size_t reserved) {
  Descriptor descriptor = make_memfd(name, bytes);
  if (reserved < bytes && system_calls::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0)
    refuse("size", bytes, errno);
  reserve(descriptor, 0, reserved);
  if (::fcntl(descriptor.get(), F_ADD_SEALS, size_is_final | F_SEAL_SEAL) != 0) refuse("seal", bytes, errno);
  SharedMemory memory = map(descriptor, bytes);
  if (!memory) refuse("map", bytes, errno);
  return {std::move(memory), std::move(descriptor)};
}

std::variant<SharedMemory, std::string> map_memory(const Descriptor& descriptor, std::size_t bytes) {
  struct ::stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return fmt::format("no descriptor: {}", std::strerror(errno));
  if (status.st_size != static_cast<off_t>(bytes)) return fmt::format("{} bytes instead of {}", status.st_size, bytes);
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & size_is_final) != size_is_final) return "its size could still change";
  if (SharedMemory memory = map(descriptor, bytes)) return memory;
  return "cannot map it: " + refusal(errno);
}

NewRing make_ring(std::size_t areas) {
  NewMemory made = make_memory("tutti-ring", RingMemory::bytes_with(areas));
  auto* const ring = ::new (made.memory.get()) RingMemory;
  return {{{std::move(made.memory), ring}, areas}, std::move(made.descriptor)};
}

std::variant<MappedRing, std::string> map_ring(const Descriptor& descriptor) {
  // The size determines the number of areas; any other size is refused.
  struct ::stat status {};
  std::size_t areas = least_areas;
  if (::fstat(descriptor.get(), &status) == 0)
    for (const std::size_t each : ring_sizes)
      if (std::cmp_equal(RingMemory::bytes_with(each), status.st_size)) areas = each;
  auto mapped = map_memory(descriptor, RingMemory::bytes_with(areas));
  if (auto* const trouble = std::get_if<std::string>(&mapped)) return std::move(*trouble);
  auto& memory = std::get<SharedMemory>(mapped);
  return MappedRing{{memory, std::launder(reinterpret_cast<RingMemory*>(memory.get()))}, areas};
}

}  // namespace tutti::transport
