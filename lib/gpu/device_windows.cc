#include "lib/gpu/device_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "lib/base/collective_traits.h"
#include "lib/base/hash.h"
#include "lib/base/index.h"
#include "tutti/error.h"

namespace tutti::detail {
namespace {

/// Throws if the program has freed this rank's part of a window.
void require_unfreed(const std::string& call, const DeviceWindow& window, cuda::Address own) {
  if (window.buffer != 0 && cuda::facts_of(own).buffer != window.buffer)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{}: the memory at {:#x} was registered, and has been freed since: deregister memory "
                            "before it is freed, and register what is there now",
                            call, own)};
}

bool overlap(cuda::Address one, std::size_t one_bytes, cuda::Address other, std::size_t other_bytes) {
  return one < other + other_bytes && other < one + one_bytes;
}

bool holds(const DeviceWindow& window, cuda::Address begin, std::size_t bytes, int rank) {
  const cuda::Address own = window.parts[at(rank)].address;
  return begin >= own && begin - own <= window.bytes && bytes <= window.bytes - (begin - own);
}

/// In gather and scatter the other ranks have no vector in which their parts could lie.
void look_for_part_in_place(const Request& request, int rank, DeviceLocation& location) {
  struct Side {
    cuda::Address begin;
    std::size_t bytes;
  };
  const CollectiveTraits& traits = traits_of(request.collective);
  if (traits.is_rooted() || (!traits.gathers() && !traits.scatters())) return;
  const Side input{cuda::address_of(request.input.data), location.input_bytes};
  const Side output{cuda::address_of(request.output.data), location.output_bytes};
  const Side& part = traits.gathers() ? input : output;
  const Side& whole = traits.gathers() ? output : input;
  const DeviceWindow* const window = traits.gathers() ? location.input.get() : location.output.get();
  const std::size_t skipped = at(rank) * part.bytes;
  if (!window || part.begin != whole.begin + skipped || !holds(*window, whole.begin, whole.bytes, rank)) return;
  location.part_in_place = true;
  (traits.gathers() ? location.input_offset : location.output_offset) -= skipped;
}

}  // namespace

bool DeviceLocation::is_apart() const noexcept {
  if (!input || !output) return input || output;
  return input->number != output->number || !overlap(input_offset, input_bytes, output_offset, output_bytes);
}

std::uint32_t DeviceLocation::hash() const noexcept {
  if (!input && !output) return 0;
  const std::size_t parts[] = {input ? input->number : 0, input_offset, output ? output->number : 0, output_offset,
                               part_in_place ? 1u : 0u};
  const std::uint64_t digest = fnv1a({reinterpret_cast<const char*>(parts), sizeof parts});
  return static_cast<std::uint32_t>(digest ^ digest >> 32) | 1;
}

void DeviceWindows::require_free(const std::string& call, cuda::Address data, std::size_t bytes) const {
  const std::lock_guard lock{mutex_};
  for (const auto& window : all_) {
    const cuda::Address there = window->parts[at(rank_)].address;
    if (!overlap(data, bytes, there, window->bytes)) continue;
    require_unfreed(call, *window, there);
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{}: {} bytes at {:#x} overlap {} bytes at {:#x}, which are registered or allocated for "
                            "this communicator: register memory once",
                            call, bytes, data, window->bytes, there)};
  }
}

void DeviceWindows::add(std::shared_ptr<const DeviceWindow> window, int rank) {
  const std::lock_guard lock{mutex_};
  rank_ = rank;
  all_.push_back(std::move(window));
}

void DeviceWindows::remove(std::uint32_t number) noexcept {
  const std::lock_guard lock{mutex_};
  const auto gone = std::ranges::find(all_, number, [](const auto& one) { return one->number; });
  if (gone == all_.end()) return;
  removed_.push_back(std::move(*gone));
  all_.erase(gone);
}

void DeviceWindows::drop_removed() noexcept {
  std::vector<std::shared_ptr<const DeviceWindow>> dropped;
  {
    const std::lock_guard lock{mutex_};
    dropped.swap(removed_);
  }
}

void DeviceWindows::drop_removed(std::uint32_t number) noexcept {
  std::shared_ptr<const DeviceWindow> dropped;  // goes behind the lock
  const std::lock_guard lock{mutex_};
  const auto found = std::ranges::find(removed_, number, [](const auto& one) { return one->number; });
  if (found == removed_.end()) return;
  dropped = std::move(*found);
  removed_.erase(found);
}

void DeviceWindows::keep_for_ever() noexcept {
  const std::lock_guard lock{mutex_};
  for (auto* const list : {&all_, &removed_})
    for (auto& window : *list) new (std::nothrow) std::shared_ptr<const DeviceWindow>{window};
}

void DeviceWindows::close() noexcept {
  {
    const std::lock_guard lock{mutex_};
    std::ranges::move(all_, std::back_inserter(removed_));
    all_.clear();
  }
  drop_removed();
}

std::shared_ptr<const DeviceWindow> DeviceWindows::find(const std::string& call, const void* data, std::size_t bytes,
                                                        int rank) const {
  const cuda::Address begin = cuda::address_of(data);
  for (const auto& window : all_) {
    if (!holds(*window, begin, bytes, rank)) continue;
    require_unfreed(call, *window, window->parts[at(rank)].address);
    return window;
  }
  return nullptr;
}

DeviceLocation DeviceWindows::locate(const std::string& call, const Request& request, bool shares_input,
                                     bool shares_output, int rank) const {
  const std::lock_guard lock{mutex_};
  DeviceLocation location;
  if (all_.empty()) return location;
  location.input_bytes = request.input.count * size_of(request.input.type);
  location.output_bytes = request.output.count * size_of(request.output.type);
  if (shares_input) location.input = find(call, request.input.data, location.input_bytes, rank);
  if (shares_output) location.output = find(call, request.output.data, location.output_bytes, rank);
  const auto offset = [&](const auto& window, const void* data) {
    return window ? cuda::address_of(data) - window->parts[at(rank)].address : 0;
  };
  location.input_offset = offset(location.input, request.input.data);
  location.output_offset = offset(location.output, request.output.data);
  look_for_part_in_place(request, rank, location);
  return location;
}

}  // namespace tutti::detail
