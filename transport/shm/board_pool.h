#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "transport/shm/pool_chunk.h"
#include "transport/transport.h"

namespace tutti::transport {

/// Where the boards of this rank's groups come from: its own chunks for groups of which it is the first member, and the
/// chunks of other ranks for groups of which they are. A rank hands a chunk to a peer with each group for which both
/// need it, until all members of one of these have found their place. From then on, a group costs neither of them a
/// system call, a mapping or a descriptor. The number of chunks grows with the logarithm of the number of groups that
/// exist at a time.
///
/// Threading: one thread at a time.
class BoardPool {
 public:
  /// Sends a chunk to a rank that may not have it yet.
  using HandOver = std::function<void(int peer, const Descriptor& chunk)>;

  explicit BoardPool(int rank) : rank_(rank) {}

  /// For this rank as the first of `members`. See PoolChunk::give().
  std::shared_ptr<std::byte> give(Channel name, std::span<const int> members, const MemoryNeed& need,
                                  const HandOver& hand_over);
  /// Some member may sleep until a place is given.
  bool is_awaited() const noexcept;
  /// The place of at least `bytes` bytes that the first member, `owner`, has given; null: none yet. Throws
  /// Error{system}, once, if the chunk that was sent for it could not be received.
  std::shared_ptr<std::byte> find(Channel name, int owner, std::size_t bytes);
  /// The place is no longer wanted.
  void forget(Channel name) noexcept;
  /// The group has failed, and members that have not entered its place may never do so. Those that do learn there why
  /// it failed, so only the oldest such places are reclaimed. May be said again.
  void group_failed(Channel name) noexcept;
  /// The group has ended, and no call of its has used its place. Members that have not entered it never will.
  void withdraw(Channel name) noexcept;

  /// A peer has sent a chunk of its own with the group `name`.
  void add(int owner, Channel name, const Descriptor& chunk);
  /// It was sent, but this rank could not receive it.
  void add_refused(int owner, Channel name, const std::string& why);

  /// Call these around sleeping. In between, a rank that gives a place knows that some rank sleeps. After
  /// begin_to_wait() look once more.
  void begin_to_wait() noexcept;
  void end_waiting() noexcept;

 private:
  struct Own {
    std::shared_ptr<PoolChunk> chunk;
    std::map<int, std::vector<Channel>> sent_to;  // by peer: the groups with which it went there
    std::set<int> is_known_to;                    // ranks
  };

  Own& with_free_place(Channel name, std::size_t bytes);
  static bool must_be_sent(Own& own, int peer);
  void wait_for(int owner) noexcept;
  PoolChunk* given_up(Channel name) noexcept;

  int rank_;
  std::vector<Own> own_;
  std::deque<Channel> failed_;  // names of own places, the oldest first
  std::map<int, std::vector<std::shared_ptr<PoolChunk>>> others_;
  std::map<Channel, int> missing_;          // places not found yet, with their owners
  std::map<Channel, std::string> refused_;  // those whose chunk could not be received, and why, until it is reported
  std::vector<std::shared_ptr<PoolChunk>> waits_for_;
  bool is_waiting_ = false;
};

}  // namespace tutti::transport
