#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "lib/message/keyed_queues.h"
#include "tutti/options.h"

namespace tutti::detail {

/// Which receive gets which message, by the rules of MPI: a message goes to the receive that was posted first of those
/// that fit it, a receive gets the message that came first of those that fit it.
///
/// A message that waits stands in the queue of each of the four keys by which a receive may ask for it. A receive that
/// waits stands in one queue, and a message looks into four.
template <class Receive, class Message, class Key = MatchKey>
class Matching {
 public:
  bool has_receives() const { return !receives_.empty(); }

  /// No message that waits fits this receive: see message_for().
  void post(int source, int tag, Receive receive) {
    receives_.add({++posted_, std::move(receive)}, {Key{source, tag}});
  }
  /// No receive that waits fits this message: see receive_for().
  void keep(int source, int tag, Message message) { messages_.add(std::move(message), keys_for(source, tag)); }

  /// The receive for a message that has come; it waits no longer.
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
  /// The message for a receive that has been called; it waits no longer.
  std::optional<Message> message_for(int source, int tag) {
    if (messages_.empty()) return std::nullopt;
    const std::optional<Id> id = messages_.first(Key{source, tag});
    if (!id) return std::nullopt;
    return messages_.remove(*id);
  }

  /// The same, which goes on waiting. Null: there is none.
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
