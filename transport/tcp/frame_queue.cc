#include "transport/tcp/frame_queue.h"

#include <algorithm>
#include <array>

namespace tutti::transport::tcp {
namespace {

constexpr std::size_t pieces_per_write = 64;
/// One call copies at most this many bytes, to all connections of its link, so that other links get their turn.
constexpr std::uint64_t bytes_per_write = std::uint64_t{1} << 20;

/// The pieces of one write.
class Gather {
 public:
  explicit Gather(std::uint64_t limit) : left_(std::min(limit, bytes_per_write)) {}

  bool full() const { return count_ + 2 > pieces_.size() || left_ == 0; }
  /// Adds the part of `message` from `position` on.
  void add(const FrameQueue::Message& message, std::uint64_t position) {
    const auto done = static_cast<std::size_t>(position - message.begin);
    const std::size_t of_header = std::min(done, frame_size);
    add(std::span(message.header).subspan(of_header));
    add(message.payload.subspan(done - of_header));
  }
  std::span<iovec> all() { return std::span(pieces_).first(count_); }

 private:
  void add(std::span<const std::byte> piece) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), left_));
    if (size == 0) return;
    pieces_[count_++] = {const_cast<std::byte*>(piece.data()), size};  // iovec serves readers and writers alike
    left_ -= size;
  }

  std::array<iovec, pieces_per_write> pieces_;
  std::size_t count_ = 0;
  std::uint64_t left_;
};

}  // namespace

void FrameQueue::deal_to(std::size_t connections) noexcept {
  striping_ = Striping{connections};
  for (std::size_t i = 0; i < connections; ++i) next_of_[i] = Striping::first_of(i);
}

void FrameQueue::add(const Message& message) {
  messages_.push_back(message);
  messages_.back().begin = end_;
  end_ = messages_.back().end();
}

net::Moved FrameQueue::write_first(std::span<const net::Socket> sockets, Message& message) noexcept {
  message.begin = end_;
  std::uint64_t position = end_;
  for (bool more = true; more;) {
    const std::size_t connection = striping_.connection_at(position);
    const std::uint64_t left = striping_.left_at(position);
    Gather gather{left};
    gather.add(message, position);
    const net::Moved moved = net::write_some(sockets[connection], gather.all());
    if (moved.failed()) return moved;
    note_sent(connection, moved.bytes);
    position += moved.bytes;
    more = moved.bytes == left && position < message.end() && position - message.begin < bytes_per_write;
  }
  if (position == message.end()) {
    end_ = position;
  } else {
    add(message);
  }
  return {static_cast<std::size_t>(position - message.begin), 0};
}

net::Moved FrameQueue::write(const net::Socket& socket, std::size_t connection) noexcept {
  const std::uint64_t from = next_of_[connection];
  Gather gather{striping_.left_at(from)};
  auto message = messages_.begin() + static_cast<std::ptrdiff_t>(next_);
  if (message->end() <= from) message = std::ranges::upper_bound(message, messages_.end(), from, {}, &Message::end);
  for (std::uint64_t position = from; message != messages_.end() && !gather.full(); position = message++->end())
    gather.add(*message, position);
  const net::Moved moved = net::write_some(socket, gather.all());
  note_sent(connection, moved.bytes);
  return moved;
}

std::uint64_t FrameQueue::gone_up_to() const noexcept {
  return *std::min_element(next_of_.begin(), next_of_.begin() + static_cast<std::ptrdiff_t>(striping_.connections()));
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
