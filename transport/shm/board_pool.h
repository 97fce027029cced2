#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "transport/shm/pool_chunk.h"
#include "transport/transport.h"

namespace tutti::transport {

/// Where the boards of this rank's groups come from: chunks of its own for those of which it is the first member, and
/// chunks of the ranks that are it elsewhere. A rank hands a chunk to a peer at the first group that both need it for;
/// from then on a group costs neither of them a system call, a mapping or a descriptor. Their number grows with the
/// logarithm of how many groups there are at a time.
///
/// Threading: one thread at a time.
class BoardPool {
 public:
  /// Hands a chunk to a rank that does not have it yet, soon.
  using HandOver = std::function<void(int peer, const Descriptor& chunk)>;

  explicit BoardPool(int rank) : rank_(rank) {}

  /// For this rank as the first of `members`. See PoolChunk::give().
  std::shared_ptr<std::byte> give(Channel name, std::span<const int> members, std::size_t bytes, std::size_t cleared,
                                  const HandOver& hand_over);
  /// Some member may sleep until a place is given.
  bool is_awaited() const noexcept;
  /// What the first member, `owner`, gives or has given; null: not yet. Throws Error{system}, once, after a chunk of
  /// the owner's could not be taken.
  std::shared_ptr<std::byte> find(Channel name, int owner);
  /// Nobody wants it any more.
  void forget(Channel name) noexcept;
  /// Its group has failed, and members that have not come to it perhaps never will. Those that do find out there why:
  /// so only the oldest such places are taken back. A member may not have come because it could not take the chunk: it
  /// is handed over again to the members of the next group.
  void group_failed(Channel name) noexcept;

  /// A peer hands over a chunk of its own.
  void add(int owner, const Descriptor& chunk);
  /// That came, but this rank could not take it.
  void add_refused(int owner, const std::string& why);

  /// Around sleeping: from then on who gives a place that was not found knows that somebody sleeps. Look once more.
  void begin_to_wait() noexcept;
  void end_waiting() noexcept;

 private:
  struct Own {
    std::shared_ptr<PoolChunk> chunk;
    std::vector<bool> is_known_to;  // by rank
  };
  struct Others {
    std::vector<std::shared_ptr<PoolChunk>> chunks;
    std::string trouble;  // of one that could not be taken, until somebody is told
  };

  Own& with_free_place(Channel name, std::size_t bytes);
  void wait_for(int owner) noexcept;

  int rank_;
  std::vector<Own> own_;
  std::deque<Channel> failed_;  // names of own places, the oldest first
  std::map<int, Others> others_;
  std::map<Channel, int> missing_;  // not found yet: their owners
  std::vector<std::shared_ptr<PoolChunk>> waits_for_;
  bool is_waiting_ = false;
};

}  // namespace tutti::transport
