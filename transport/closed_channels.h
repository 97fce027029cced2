#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

#include "transport/transport.h"

namespace tutti::transport {

/// The channels that were closed last, each with the answer to a peer that comes for it later. Older ones are
/// forgotten, so that a program that makes and closes groups for days needs no more memory than one that runs for a
/// minute. A peer whose first message comes after that waits, as it does for a group that does not exist here yet, but
/// late credit does not.
template <class Words>
class ClosedChannels {
 public:
  static constexpr std::size_t most = 1024;

  /// Null: it was not closed, or too long ago.
  const Words* find(Channel channel) const {
    const auto found = places_.find(channel);
    return found == places_.end() ? nullptr : &found->second->second;
  }
  /// If the channel was closed before, the answer of the first call stays. It is kept until `most` other channels have
  /// been closed, or until reopen().
  const Words& close(Channel channel, Words words) {
    if (const Words* const known = find(channel)) return *known;
    closed_.emplace_back(channel, std::move(words));
    places_.emplace(channel, std::prev(closed_.end()));
    if (closed_.size() > most) reopen(closed_.front().first);
    return closed_.back().second;
  }
  void reopen(Channel channel) {
    const auto found = places_.find(channel);
    if (found == places_.end()) return;
    closed_.erase(found->second);
    places_.erase(found);
  }
  std::size_t size() const { return closed_.size(); }

 private:
  using Closed = std::list<std::pair<Channel, Words>>;
  Closed closed_;  // oldest first
  std::unordered_map<Channel, typename Closed::iterator> places_;
};

}  // namespace tutti::transport
