#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "transport/memory/board.h"

namespace tutti::transport::testing {

inline std::shared_ptr<std::byte> filled(std::size_t bytes, int value) {
  static constexpr std::align_val_t alignment{4096};
  auto* const made = static_cast<std::byte*>(::operator new(bytes, alignment));
  std::memset(made, value, bytes);
  return {made, [](std::byte* old) { ::operator delete(old, alignment); }};
}

struct Memory {
  explicit Memory(int count)
      : ranks(count), board(filled(Board::bytes_for(count), 0)), rooms(filled(AreaLayout::of(count).bytes, 0x5a)) {}

  Board seen_by(int rank) const {
    Board made{board, ranks, rank};
    made.add_areas(rooms);
    made.add_slots(slots);
    return made;
  }

  int ranks;
  std::shared_ptr<std::byte> board;
  std::shared_ptr<std::byte> rooms;
  std::shared_ptr<std::byte> slots = filled(Board::bytes_of_slots, 0x5a);
};

inline std::vector<std::byte> contribution_words(int rank, std::uint64_t round, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::uint64_t>(rank) * 31 + round * 7 + i);
  return bytes;
}

inline bool equal(std::span<const std::byte> left, std::span<const std::byte> right) {
  return std::ranges::equal(left, right);
}

inline void post(Board& board, std::size_t size, Flow flow = Flow::one_way) {
  std::ranges::copy(contribution_words(0, board.round() + 1, size), board.room(size, flow));
  board.begin(0, {}, 0, {});
}

}  // namespace tutti::transport::testing
