#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/message/active_messages.h"
#include "lib/message/envelope.h"
#include "lib/message/matching.h"
#include "lib/message/message.h"

namespace tutti::detail {

/// Memory for a message. It is not cleared, which would take as long as to copy the message once more.
class KeptBytes {
 public:
  KeptBytes() = default;
  explicit KeptBytes(std::size_t size) : bytes_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}

  std::size_t size() const { return size_; }
  std::span<std::byte> span() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
};

/// A message that came before its receive, or does not fit into it.
struct Unexpected {
  Envelope envelope{};
  KeptBytes data{};               ///< the message, or what came with its request
  bool complete = false;          ///< all of `data` is there
  std::uint32_t sender_slot = 0;  ///< of a request
  Message* local = nullptr;       ///< a large message to oneself: the send itself
  Message* taker = nullptr;       ///< matched while `data` was still arriving
  bool request = false;           ///< its sender waits for a grant
  bool granted = false;           ///< its sender had no credit, and got a grant although there was no receive
};

/// Receives that wait for a message, messages that wait for a receive, and probes that wait for a message to come.
class WaitingMessages {
 public:
  using Kept = std::list<Unexpected>::iterator;

  explicit WaitingMessages(ActiveMessages& active) : active_(active) {}

  /// Whether no receive waits and no message is kept. Probes may wait.
  bool empty() const { return !matching_.has_receives() && unexpected_.empty(); }

  // ---- Receives and probes
  /// Takes out the receive for a message that has come; null: there is none.
  Message* receive_for(const Envelope& envelope) {
    return matching_.receive_for(envelope.source, envelope.tag).value_or(nullptr);
  }
  void add(Message& receive) { matching_.post(receive.peer, receive.tag, &receive); }
  void add_probe(Message& probe) { probes_.push_back(&probe); }
  void remove_probe(Message& probe) { std::erase(probes_, &probe); }

  // ---- Messages
  /// Takes out the message for a receive that has been called. Its data are still kept.
  std::optional<Kept> message_for(const Message& receive) { return matching_.message_for(receive.peer, receive.tag); }
  /// The message that message_for() would take out; null: there is none.
  const Envelope* look_for(int peer, int tag) const;
  Kept keep(Unexpected&& message) { return unexpected_.insert(unexpected_.end(), std::move(message)); }
  /// The kept message that was granted to `source` for its send `sender_slot`, and has not come yet.
  std::optional<Kept> granted_to(int source, std::uint32_t sender_slot) noexcept;
  /// From now on a kept message waits for its receive. Probes for it end.
  void await_receive(Kept kept) noexcept;
  Unexpected remove(Kept kept);
  /// The first message from `peer`, or from any rank, that waits for a receive, in words; empty: there is none.
  std::string unclaimed(int peer) const;

  void clear();

 private:
  ActiveMessages& active_;
  std::list<Unexpected> unexpected_;
  Matching<Message*, Kept> matching_;  // receives, and the entries of unexpected_ that have no taker
  std::vector<Message*> probes_;
};

}  // namespace tutti::detail
