#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "lib/base/descriptor.h"
#include "transport/memory/slot_ring.h"

namespace tutti::transport {

/// Memory that several processes map. Each process unmaps it with its last reference.
using SharedMemory = std::shared_ptr<std::byte>;
struct NewMemory {
  SharedMemory memory;
  Descriptor descriptor;
};

/// `bytes` bytes of zeros; `name` is what /proc shows. Throws Error{system} if the system refuses it.
NewMemory make_memory(const char* name, std::size_t bytes);
/// The same, with only the first `reserved` bytes reserved: the rest must not be touched before reserve().
NewMemory make_memory(const char* name, std::size_t bytes, std::size_t reserved);
/// Throws Error{system} if the system refuses the memory, which would otherwise be a signal at some later access. Then
/// none of it is reserved. Without strict overcommit Linux does not refuse what it lacks, but ends a process to get it.
void reserve(const Descriptor& descriptor, std::size_t offset, std::size_t bytes);
/// Returns whole pages to the system, for all processes that map them. They must be reserved again before use, and are
/// zeros then. False: they stay as they are, since the system does not take them back from a process that has locked
/// its memory (mlockall).
[[nodiscard]] bool release(std::byte* begin, std::size_t bytes) noexcept;
/// Maps memory that a peer has made, or says what is wrong with its descriptor. The size is sealed, so that accesses
/// never fault.
std::variant<SharedMemory, std::string> map_memory(const Descriptor& descriptor, std::size_t bytes);

/// The same for rings: an empty one with `areas` areas for payloads, and one that a peer has made.
struct MappedRing {
  std::shared_ptr<RingMemory> memory;
  std::size_t areas = least_areas;
};
struct NewRing {
  MappedRing ring;
  Descriptor descriptor;
};
NewRing make_ring(std::size_t areas = least_areas);
std::variant<MappedRing, std::string> map_ring(const Descriptor& descriptor);

}  // namespace tutti::transport
