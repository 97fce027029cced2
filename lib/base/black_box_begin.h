#pragma once

#include <bit>

#include "lib/base/black_box.h"

// Writing a call: inline, so that its parts come from where the caller has them. Were they put into memory first, some
// of them together, the processor would have to wait until all stores before them have reached the cache, posts for
// other cores among them: a fifth of a tiny call.

namespace tutti::black_box {

// ---- Writing a call: inline, so that its parts come from where the caller has them. Were they put into memory first,
// some of them together, the processor would have to wait until all stores before them have reached the cache, posts
// for other cores among them: a fifth of a tiny call.

/// What a Call is in memory.
inline std::array<std::uint64_t, call_words> words_of(const Call& call) {
  static_assert(offsetof(Call, root) == 40 && offsetof(Call, steps) == 48 && offsetof(Call, algorithm) == 56);
  const auto algorithm = std::bit_cast<std::array<std::uint64_t, 3>>(call.algorithm);
  static_assert(std::endian::native == std::endian::little, "the first part of a word is its lowest");
  const auto two = [](std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; };
  const auto four = [](unsigned a, unsigned b, unsigned c, unsigned d) { return a | b << 8 | c << 16 | d << 24; };
  return {call.group,
          call.operation,
          call.count,
          static_cast<std::uint64_t>(call.started),
          static_cast<std::uint64_t>(call.realtime),
          two(static_cast<std::uint32_t>(call.root), static_cast<std::uint32_t>(call.tag)),
          two(call.steps, four(call.collective, call.type, call.op, call.variable)),
          algorithm[0],
          algorithm[1],
          algorithm[2]};
}

inline Flight Box::begin(const Call& call, std::int64_t started) noexcept {
  constexpr std::int64_t second = 1'000'000'000;
  if (started - realtime_read_ > second || realtime_read_ == 0) [[unlikely]]
    read_realtime(started);
  auto words = words_of(call);
  words[offsetof(Call, started) / 8] = static_cast<std::uint64_t>(started);
  words[offsetof(Call, realtime) / 8] = static_cast<std::uint64_t>(realtime_);
  const std::size_t place = operations_ % record_count;
  Record& record = memory_->records[place];
  ++operations_;
  record.ticket.store(2 * operations_ - 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i) record.call[i].store(words[i], std::memory_order_relaxed);
  record.bytes.store(0, std::memory_order_relaxed);
  record.ended.store(0, std::memory_order_relaxed);
  record.steps_done.store(0, std::memory_order_relaxed);
  record.state.store(State::started, std::memory_order_relaxed);
  record.text_bytes.store(0, std::memory_order_relaxed);
  record.ticket.store(2 * operations_, std::memory_order_release);
  memory_->operations.store(operations_, std::memory_order_release);
  return Flight(record, memory_->texts[place]);
}

}  // namespace tutti::black_box
