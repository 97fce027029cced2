#include "transport/tcp/frame_queue.h"

#include <array>

namespace tutti::transport::tcp {
namespace {

constexpr std::size_t pieces_per_write = 64;
/// One call copies at most this many bytes, so that other links get their turn.
constexpr std::size_t bytes_per_write = std::size_t{1} << 20;

/// The pieces of one write.
struct Gather {
  std::array<iovec, pieces_per_write> pieces;
  std::size_t count = 0;
  std::size_t bytes = 0;

  bool full() const { return count + 2 > pieces.size() || bytes >= bytes_per_write; }
  void add(std::span<const std::byte> piece) {
    if (piece.empty()) return;
    const std::size_t size = std::min(piece.size(), bytes_per_write - std::min(bytes, bytes_per_write));
    if (size == 0) return;
    pieces[count++] = {const_cast<std::byte*>(piece.data()), size};  // iovec serves readers and writers alike
    bytes += size;
  }
  void add_rest(const FrameQueue::Message& message) {
    const std::size_t of_header = std::min(message.done, frame_size);
    add(std::span(message.header).subspan(of_header));
    add(message.payload.subspan(message.done - of_header));
  }
  std::span<iovec> all() { return std::span(pieces).first(count); }
};

}  // namespace

net::Moved FrameQueue::write_one(const net::Socket& socket, Message& message) noexcept {
  Gather gather;
  gather.add(message.header);
  gather.add(message.payload);
  const net::Moved moved = net::write_some(socket, gather.all());
  message.done = moved.bytes;
  return moved;
}

net::Moved FrameQueue::write(const net::Socket& socket) const noexcept {
  Gather gather;
  for (std::size_t i = next_; i < messages_.size() && !gather.full(); ++i) gather.add_rest(messages_[i]);
  return net::write_some(socket, gather.all());
}

void FrameQueue::clear() noexcept {
  messages_.clear();
  next_ = 0;
}

void FrameQueue::drop_sent() noexcept {
  const bool is_mostly_sent =
      next_ > 1024 && next_ > messages_.size() / 2;  // so that on average no message is moved more than once
  if (next_ < messages_.size() && !is_mostly_sent) return;
  messages_.erase(messages_.begin(),
                  messages_.begin() + static_cast<std::ptrdiff_t>(std::min(next_, messages_.size())));
  next_ = 0;
}

}  // namespace tutti::transport::tcp
