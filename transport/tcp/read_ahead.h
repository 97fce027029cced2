#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "transport/frame.h"
#include "transport/hello.h"

namespace tutti::transport::tcp {

/// Bytes that were read before it was known where they belong: headers, and payload that came with them.
class ReadAhead {
 public:
  static constexpr std::size_t capacity = 8192;

  std::size_t size() const { return end_ - begin_; }
  std::span<const std::byte> bytes() const { return std::span(memory_).subspan(begin_, size()); }
  /// Room for more bytes. Moves the others to the front first.
  std::span<std::byte> room();
  void filled(std::size_t count) { end_ += count; }
  /// Moves up to `to.size()` bytes to `to`; returns how many.
  std::size_t take(std::span<std::byte> to);
  void drop(std::size_t count) { begin_ += count; }
  /// Appends as many of these as there is room for.
  void add(std::span<const std::byte> more);

 private:
  std::array<std::byte, capacity> memory_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

static_assert(ReadAhead::capacity >= frame_size + max_reason, "an abort is read whole");

}  // namespace tutti::transport::tcp
