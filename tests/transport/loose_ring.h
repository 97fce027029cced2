#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "transport/memory/slot_link.h"

namespace tutti::transport::testing {

template <std::size_t areas>
std::shared_ptr<RingMemory> private_ring() {
  auto made = std::make_shared<RingWithAreas<areas>>();
  return {made, &made->ring};
}

inline Frame frame_with(std::size_t length, std::uint32_t number = 0) {
  return {.length = length, .operation = number};
}

/// The sender's areas once its ring has brought some along.
inline Areas& with_own(Areas& areas, const std::shared_ptr<RingMemory>& ring, std::size_t count) {
  areas.add_own(ring, count);
  return areas;
}

/// A ring in this process, with both ends, in one direction.
struct LooseRing {
  explicit LooseRing(const CopyPolicy& copy_policy = {})
      : writer(*memory, with_own(senders, memory, least_areas), copy_policy) {
    receivers.add_theirs(memory, least_areas);
  }

  bool put(std::span<const std::byte> bytes, std::uint32_t number = 0) {
    return writer.begin(frame_with(bytes.size(), number), bytes);
  }

  std::shared_ptr<RingMemory> memory = private_ring<least_areas>();
  Areas senders, receivers;
  RingWriter writer;
  RingReader reader{*memory, receivers};
};

/// An endpoint to nobody.
struct LooseEndpoint final : RingEndpoint {
  explicit LooseEndpoint(std::shared_ptr<RingMemory> ring_memory) : memory(std::move(ring_memory)) {}
  RingMemory& ring() noexcept override { return *memory; }
  std::shared_ptr<RingMemory> share_ring() noexcept override { return memory; }
  void wake_peer() noexcept override { ++wakes; }
  bool peer_left() const noexcept override { return left; }
  void cut() noexcept override { left = true; }
  bool read_peer(std::span<std::byte>, std::uint64_t) noexcept override {
    ++*reads;
    return false;
  }

  std::shared_ptr<RingMemory> memory;
  bool left = false;
  int wakes = 0;
  /// Outlives the endpoint, which a link that fails destroys.
  std::shared_ptr<int> reads = std::make_shared<int>(0);
};

}  // namespace tutti::transport::testing
