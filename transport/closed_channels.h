#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

#include "transport/transport.h"

namespace tutti::transport {

/// The channels that were closed last, each with what is to be said to a peer that comes for it later. Older ones are
/// forgotten, so that a program that makes and closes groups for days needs no more memory than one that runs for a
/// minute: a peer whose first message comes after that many more channels were closed waits, as for a group that is
/// yet to be made here.
template <class Words>
class ClosedChannels {
 public:
  static constexpr std::size_t most = 1024;

  /// Null: it was not closed, or too long ago.
  const Words* find(Channel channel) const {
    const auto found = places_.find(channel);
    return found == places_.end() ? nullptr : &found->second->second;
  }
  /// What is said is what the first call said, if the channel was closed before; it stays there until `most` others
  /// have been closed, or reopen().
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
  Closed closed_;  // the oldest first
  std::unordered_map<Channel, typename Closed::iterator> places_;
};

}  // namespace tutti::transport
