#include "lib/board/window.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "lib/base/collective_traits.h"
#include "lib/collective/call.h"

namespace tutti::detail {

Window::Window(std::shared_ptr<std::byte> memory, std::size_t part_bytes, int rank, std::uint32_t number)
    : memory_(std::move(memory)), part_bytes_(part_bytes), rank_(rank), number_(number) {}

bool Window::holds(const void* data, std::size_t bytes) const noexcept {
  const auto* const begin = static_cast<const std::byte*>(data);
  constexpr std::less_equal<const std::byte*> at_most{};
  return at_most(own(), begin) && at_most(begin, own() + part_bytes_) && bytes <= part_bytes_ - offset_of(data);
}

std::size_t Window::offset_of(const void* data) const noexcept {
  return static_cast<std::size_t>(static_cast<const std::byte*>(data) - own());
}

transport::Channel name_of_window(std::uint64_t group, std::uint32_t number) {
  const std::size_t parts[] = {static_cast<std::size_t>(group), number, 0x77696e646f77};  // "window"
  return counts_hash(parts) << 1;
}

std::uint32_t WindowLocation::hash() const noexcept {
  if (!given()) return 0;
  const std::size_t numbers[] = {input ? input->number() : 0, output ? output->number() : 0};
  const std::uint64_t digest = counts_hash(numbers);
  return static_cast<std::uint32_t>(digest ^ digest >> 32) | 1;
}

void Windows::add(const Window& window) {
  const std::lock_guard lock{mutex_};
  all_.push_back(&window);
  count_.store(all_.size(), std::memory_order_relaxed);
  changes_.fetch_add(1, std::memory_order_relaxed);
}

void Windows::remove(const Window& window) noexcept {
  const std::lock_guard lock{mutex_};
  std::erase(all_, &window);
  count_.store(all_.size(), std::memory_order_relaxed);
  changes_.fetch_add(1, std::memory_order_relaxed);
}

bool Windows::have(const WindowLocation& location) const noexcept {
  const std::lock_guard lock{mutex_};
  const auto has = [this](const Window* window, std::uint32_t number) {
    return !window ||
           std::ranges::any_of(all_, [=](const Window* one) { return one == window && one->number() == number; });
  };
  return has(location.input, location.input_number) && has(location.output, location.output_number);
}

const Window* Windows::find(const void* data, std::size_t bytes) const noexcept {
  for (const Window* const window : all_)
    if (window->holds(data, bytes)) return window;
  return nullptr;
}

/// The answer must be the same on all ranks, so it may not depend on a buffer that only the root passes.
WindowLocation Windows::location_of(const Request& request, bool shares_input, bool shares_output) const {
  const OpKind op = request.op ? request.op->kind() : OpKind::sum;
  const bool staged =
      op == OpKind::premul_sum || op == OpKind::user ||  // which may not write over what it reads
      (traits_of(request.collective).in_place == InPlace::never && request.input.data == request.output.data);
  if (request.variable || staged) return {};

  const std::lock_guard lock{mutex_};
  WindowLocation location;
  if (shares_input) {
    location.input = find(request.input.data, request.input.count * size_of(request.input.type));
    if (!location.input) return {};
    location.input_number = location.input->number();
    location.offsets.input = location.input->offset_of(request.input.data);
  }
  if (shares_output) {
    location.output = find(request.output.data, request.output.count * size_of(request.output.type));
    if (!location.output) return {};
    location.output_number = location.output->number();
    location.offsets.output = location.output->offset_of(request.output.data);
  }
  return location;
}

}  // namespace tutti::detail
