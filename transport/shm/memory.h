#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "lib/base/descriptor.h"
#include "transport/slot_ring.h"

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
