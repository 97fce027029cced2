#include "lib/gpu/device_parts.h"

namespace tutti::detail {
namespace {

/// The engines that copy are for memory of the host: within a device, rows need a pitch of the driver's choice.
auto way_of(DeviceParts::CopyIn where) {
  return where == DeviceParts::CopyIn::pinned_memory ? &cuda::Commands::copy_by_engine : &cuda::Commands::copy;
}

}  // namespace

DeviceParts::DeviceParts(const void* data, std::size_t wire_element, std::span<const std::size_t> counts,
                         std::size_t caller_element, std::span<const std::size_t> displacements)
    : on_device_(cuda::address_of(data)) {
  for (std::size_t part = 0; part < counts.size(); ++part) {
    pieces_.push_back({displacements[part] * caller_element, bytes_, counts[part] * wire_element});
    bytes_ += pieces_.back().bytes;
  }
}

void DeviceParts::collect(cuda::Commands& commands, cuda::Address copy, CopyIn where) const {
  for (const Piece& piece : pieces_)
    (commands.*way_of(where))(copy + piece.in_copy, on_device_ + piece.on_device, piece.bytes);
}

void DeviceParts::spread(cuda::Commands& commands, cuda::Address copy, CopyIn where) const {
  for (const Piece& piece : pieces_)
    (commands.*way_of(where))(on_device_ + piece.on_device, copy + piece.in_copy, piece.bytes);
}

}  // namespace tutti::detail
