#pragma once

#include <variant>

#include "lib/base/descriptor.h"
#include "transport/slot_ring.h"

namespace tutti::transport {

/// A ring mapped from memory without a name. Unmaps it at the end; the memory goes with its last user.
class MappedRing {
 public:
  explicit MappedRing(RingMemory* memory) : memory_(memory) {}
  MappedRing(MappedRing&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  MappedRing& operator=(MappedRing&&) = delete;
  ~MappedRing();

  RingMemory& memory() const { return *memory_; }

 private:
  RingMemory* memory_;
};

struct NewRing {
  MappedRing ring;
  Descriptor descriptor;  ///< what a peer needs to map it too
};

/// An empty ring. Throws Error{system} where the system has no memory or forbids it.
NewRing make_ring();
/// The ring that a peer has made, or what is wrong with its descriptor. The size cannot change afterwards, so that
/// access never faults.
std::variant<MappedRing, std::string> map_ring(const Descriptor& descriptor);

}  // namespace tutti::transport
