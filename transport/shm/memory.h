#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "lib/base/descriptor.h"
#include "transport/memory/slot_ring.h"

namespace tutti::transport {

/// Memory that several processes see, unmapped by its last user in each of them.
using SharedMemory = std::shared_ptr<std::byte>;
struct NewMemory {
  SharedMemory memory;
  Descriptor descriptor;
};

/// `bytes` bytes of zeros; `name` is what /proc shows. Throws Error{system} where the system has no memory or forbids
/// it.
NewMemory make_memory(const char* name, std::size_t bytes);
/// The same where only the first `reserved` bytes are there: what lies behind must not be touched before reserve().
NewMemory make_memory(const char* name, std::size_t bytes, std::size_t reserved);
/// Throws Error{system} where the system has no memory for that: else there would be a signal at some later access.
void reserve(const Descriptor& descriptor, std::size_t offset, std::size_t bytes);
/// Gives it back to the system, of everybody who has mapped it; from then on it must be reserved again. Whole pages.
void release(std::byte* begin, std::size_t bytes) noexcept;
/// What a peer has made, or what is wrong with its descriptor. The size cannot change afterwards, so that access never
/// faults.
std::variant<SharedMemory, std::string> map_memory(const Descriptor& descriptor, std::size_t bytes);

/// The same for an empty ring with so many areas for payloads, and for one that a peer has made.
struct MappedRing {
  std::shared_ptr<RingMemory> memory;
  std::size_t areas = slot_count;
};
struct NewRing {
  MappedRing ring;
  Descriptor descriptor;
};
NewRing make_ring(std::size_t areas = slot_count);
std::variant<MappedRing, std::string> map_ring(const Descriptor& descriptor);

}  // namespace tutti::transport
