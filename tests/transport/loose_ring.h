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

/// A ring in this process, with both ends, in one direction.
struct LooseRing {
  explicit LooseRing(const CopyPolicy& copy_policy = {}) : writer(*memory, senders, copy_policy) {
    senders.add_own(memory, slot_count);
    receivers.add_theirs(memory, slot_count);
  }

  bool put(std::span<const std::byte> bytes, std::uint32_t number = 0) {
    return writer.begin(frame_with(bytes.size(), number), bytes);
  }

  std::shared_ptr<RingMemory> memory = private_ring<slot_count>();
  Areas senders, receivers;
  RingWriter writer;
  RingReader reader{*memory, receivers};
};

}  // namespace tutti::transport::testing
