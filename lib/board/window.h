#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/transport.h"
#include "tutti/request.h"

namespace tutti::detail {

/// The memory of one allocate(): a part for each rank of a group, all of one size and visible to all ranks.
///
/// Ownership: keeps the memory alive.
class Window {
 public:
  /// `number`: 1 for the group's first window; the same on all ranks.
  Window(std::shared_ptr<std::byte> memory, std::size_t part_bytes, int rank, std::uint32_t number);

  std::byte* own() const noexcept { return part(rank_); }
  /// Address of `bytes` bytes at `offset` in the part of `rank`; its beginning if they would exceed the part.
  std::byte* at(int rank, std::size_t offset, std::size_t bytes) const noexcept {
    return part(rank) + (offset <= part_bytes_ && bytes <= part_bytes_ - offset ? offset : 0);
  }
  /// Whether these bytes lie in this rank's own part.
  bool holds(const void* data, std::size_t bytes) const noexcept;
  std::size_t offset_of(const void* data) const noexcept;
  std::uint32_t number() const noexcept { return number_; }

 private:
  std::byte* part(int rank) const noexcept { return memory_.get() + static_cast<std::size_t>(rank) * part_bytes_; }

  std::shared_ptr<std::byte> memory_;
  std::size_t part_bytes_;
  int rank_;
  std::uint32_t number_;
};

/// Under which name the first rank of a group hands the memory of that window to the others.
transport::Channel name_of_window(std::uint64_t group, std::uint32_t number);

/// Where the buffers of a call lie: in which windows, the same on all ranks, and at which offsets in this rank's parts.
/// Without a window the call goes as any other.
struct WindowLocation {
  struct Offsets {
    std::size_t input = 0;
    std::size_t output = 0;
  };
  const Window* input = nullptr;
  const Window* output = nullptr;
  Offsets offsets{};
  /// Numbers of the windows, since a later one may have the address of one that has gone.
  std::uint32_t input_number = 0;
  std::uint32_t output_number = 0;

  bool given() const noexcept { return input != nullptr || output != nullptr; }
  /// A hash of what must be equal on all ranks; 0 without a window.
  std::uint32_t hash() const noexcept;
};

/// The windows of a group. Threading: any thread.
class Windows {
 public:
  bool empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }
  /// Counts additions and removals, so that callers notice that a remembered location may be stale.
  std::uint32_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }
  void add(const Window& window);
  void remove(const Window& window) noexcept;
  /// Whether the windows of `location` still exist.
  bool have(const WindowLocation& location) const noexcept;
  /// The location for a checked request, if the buffers that other ranks touch lie in windows.
  WindowLocation location_of(const Request& request, bool shares_input, bool shares_output) const;

 private:
  const Window* find(const void* data, std::size_t bytes) const noexcept;

  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint32_t> changes_{0};
  mutable std::mutex mutex_;
  std::vector<const Window*> all_;
};

}  // namespace tutti::detail
