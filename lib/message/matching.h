#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "lib/message/keyed_queues.h"
#include "tutti/options.h"

namespace tutti::detail {

/// Matches receives and messages by the rules of MPI. A message goes to the first posted receive that it fits, and a
/// receive gets the first message that fits it.
///
/// A waiting message stands in four queues: one for each key by which a receive may ask for it. A waiting receive
/// stands in one queue, and a message looks into four.
template <class Receive, class Message, class Key = MatchKey>
class Matching {
 public:
  bool has_receives() const { return !receives_.empty(); }

  /// Adds a receive for which message_for() has found nothing.
  void post(int source, int tag, Receive receive) {
    receives_.add({++posted_, std::move(receive)}, {Key{source, tag}});
  }
  /// Adds a message for which receive_for() has found nothing.
  void keep(int source, int tag, Message message) { messages_.add(std::move(message), keys_for(source, tag)); }

  /// Takes out the receive for a message that has come.
  std::optional<Receive> receive_for(int source, int tag) {
    if (receives_.empty()) return std::nullopt;
    std::optional<Id> earliest;
    for (const Key& key : keys_for(source, tag)) {
      const std::optional<Id> id = receives_.first(key);
      if (id && (!earliest || receives_[*id].turn < receives_[*earliest].turn)) earliest = id;
    }
    if (!earliest) return std::nullopt;
    return receives_.remove(*earliest).receive;
  }
  /// Takes out the message for a receive that has been called.
  std::optional<Message> message_for(int source, int tag) {
    if (messages_.empty()) return std::nullopt;
    const std::optional<Id> id = messages_.first(Key{source, tag});
    if (!id) return std::nullopt;
    return messages_.remove(*id);
  }

  /// The message that message_for() would take out; null: there is none.
  const Message* look_for(int source, int tag) const {
    if (messages_.empty()) return nullptr;
    const std::optional<Id> id = messages_.first(Key{source, tag});
    return id ? &messages_[*id] : nullptr;
  }

  void clear() {
    receives_.clear();
    messages_.clear();
  }

 private:
  struct Posted {
    std::uint64_t turn = 0;
    Receive receive{};
  };
  using Id = std::uint32_t;

  static std::array<Key, 4> keys_for(int source, int tag) {
    return {Key{source, tag}, Key{source, any_tag}, Key{any_source, tag}, Key{any_source, any_tag}};
  }

  KeyedQueues<Posted, 1, Key> receives_;
  KeyedQueues<Message, 4, Key> messages_;
  std::uint64_t posted_ = 0;
};

}  // namespace tutti::detail
