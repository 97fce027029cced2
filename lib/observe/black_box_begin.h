#pragma once

#include <bit>
#include <utility>

#include "lib/observe/black_box.h"

// Writing a call: inline, so that its parts come from where the caller has them. Were they put into memory first, some
// of them together, the processor would have to wait until all stores before them have reached the cache, posts for
// other cores among them: a fifth of a tiny call. For the same reason few stores are best: those of a call wait in line
// behind its post.

namespace tutti::black_box {

inline CallWords words_of(const CallRecord& call) {
  static_assert(offsetof(CallRecord, root) == 40 && offsetof(CallRecord, parts) == 48 &&
                offsetof(CallRecord, algorithm) == 56);
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
          two(call.parts, four(call.collective, call.type, call.op, call.flags)),
          algorithm[0],
          algorithm[1],
          algorithm[2]};
}

/// Nobody reads the next record until close_record().
inline Record& Box::open_record(std::int64_t now) noexcept {
  constexpr std::int64_t second = 1'000'000'000;
  if (now - realtime_read_ > second || realtime_read_ == 0) [[unlikely]]
    read_realtime(now);
  Record& record = memory_->records[operations_ % record_count];
  record.ticket.store(2 * operations_ + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  return record;
}

/// What belongs to an end is not read before that.
inline Flight Box::close_record(Record& record) noexcept {
  const std::size_t place = operations_ % record_count;
  ++operations_;
  record.bytes.store(0, std::memory_order_relaxed);
  record.parts_done.store(0, std::memory_order_relaxed);
  record.state.store(State::started, std::memory_order_relaxed);
  record.ticket.store(2 * operations_, std::memory_order_release);
  memory_->operations.store(operations_, std::memory_order_release);
  return Flight(record, memory_->texts[place], 2 * operations_);
}

inline Flight Box::begin(const CallRecord& call) noexcept {
  auto words = words_of(call);
  form_in_[operations_ % record_count] = 0;
  Record& record = open_record(call.started);
  words[realtime_word] = static_cast<std::uint64_t>(realtime_);
  for (std::size_t i = 0; i < words.size(); ++i) record.call[i].store(words[i], std::memory_order_relaxed);
  return close_record(record);
}

inline Flight Box::begin_again(const Form& form, std::uint64_t operation, std::int64_t started) noexcept {
  std::uint64_t& form_in = form_in_[operations_ % record_count];
  Record& record = open_record(started);
  if (std::exchange(form_in, form.name) != form.name || form.name == 0)
    for (std::size_t i = 0; i < call_words; ++i) record.call[i].store(form.words[i], std::memory_order_relaxed);
  record.call[operation_word].store(operation, std::memory_order_relaxed);
  record.call[started_word].store(static_cast<std::uint64_t>(started), std::memory_order_relaxed);
  record.call[realtime_word].store(static_cast<std::uint64_t>(realtime_), std::memory_order_relaxed);
  return close_record(record);
}

inline void Flight::land_inline(std::uint32_t parts, std::uint64_t bytes, std::int64_t ended) noexcept {
  Record* const record = std::exchange(record_, nullptr);
  if (!record) return;
  record->bytes.store(bytes, std::memory_order_relaxed);
  record->parts_done.store(parts, std::memory_order_relaxed);
  record->ended.store(ended, std::memory_order_relaxed);
  record->state.store(State::done, std::memory_order_release);
}

}  // namespace tutti::black_box
