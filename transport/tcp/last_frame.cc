#include "transport/tcp/last_frame.h"

#include <array>

#include "transport/hello.h"

namespace tutti::transport::tcp {

int LastFrame::read(const net::Socket& socket) noexcept {
  std::array<std::byte, 1024> room;
  for (;;) {
    const net::Moved moved = net::read_some(socket, std::span{room});
    if (moved.error != 0) return moved.error;
    bytes_.insert(bytes_.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(moved.bytes));
    if (is_complete()) return 0;
  }
}

bool LastFrame::is_complete() noexcept {
  if (bytes_.size() < frame_size) return false;
  frame_ = decode(std::span(bytes_).first<frame_size>());
  if (frame_ && frame_->kind == FrameKind::abort && frame_->length <= max_reason) {
    if (reason().size() < frame_->length) return false;
    bytes_.resize(frame_size + static_cast<std::size_t>(frame_->length));
  } else if (frame_ && frame_->kind != FrameKind::bye) {
    frame_.reset();
  }
  return true;
}

void LastFrame::clear() noexcept {
  bytes_.clear();
  frame_.reset();
}

}  // namespace tutti::transport::tcp
