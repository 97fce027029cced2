#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/plan.h"
#include "lib/engine/fifo.h"
#include "lib/group/checksum.h"
#include "transport/transport.h"

namespace tutti::detail {

class Collectives;
class Group;
class Operation;

/// The links of one communicator's collectives: decides which operation may use a link next, and to which step an
/// arriving message belongs.
///
/// On each link frames leave in the order of operations, and those of one operation in the order of its plan. So the
/// next message on a link always belongs to the first receive posted there, and messages need no tags. A message for
/// which no receive is posted yet stays in its link. Threading: the owner of the engine.
class LinkQueues {
 public:
  LinkQueues(Collectives& collectives, Group& group, transport::Channel channel);

  // ---- Operations
  /// Queues the operation, which is the last one that has begun, for its turn on each lane of its plan.
  void queue(Operation& operation) noexcept;
  /// The operation has issued its last step on this lane: the next one gets its turn.
  void lane_done(Operation& operation, std::uint32_t lane) noexcept;
  /// False: the link will report the message as sent. What the operation's caller has sent inline is not sent again.
  bool send(Operation& operation, std::uint32_t step, int peer, std::span<const std::byte> bytes) noexcept;
  /// True: the operation's caller has received the message inline.
  bool post(Operation& operation, std::uint32_t step, int peer, std::span<std::byte> bytes) noexcept;
  /// For inline calls: the links to and from `peer`, if they exist and no message of an operation is under way there;
  /// else null.
  transport::Link* idle_to(int peer) const noexcept;
  transport::Link* idle_from(int peer) const noexcept;

  // ---- Links
  transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept;
  void view(transport::Link& from, std::span<const std::byte> piece) noexcept;
  void received(transport::Link& from) noexcept;
  /// The link reports a message as sent that it had queued.
  void sent(transport::Link& to) noexcept;

  // ---- Failures
  /// Whether the operation waits for a message of `peer`, or for `peer` to take one.
  bool is_awaited(int peer, const Operation& operation) const;
  /// A receive that is posted: what the next message of a peer is for.
  struct Posted {
    Operation* operation = nullptr;
    std::uint32_t step = 0;
    std::span<std::byte> bytes;
    std::size_t seen = 0;
    Arriving arriving{};
  };
  /// The first receive posted for messages of `peer`; null: none.
  const Posted* next_from(int peer) const {
    const Fifo<Posted>& posted = receives_[static_cast<std::size_t>(peer)].posted;
    return posted.empty() ? nullptr : &posted[0];
  }
  /// Makes the link from `peer` offer its next message again, if no receive is posted for it.
  void look_again(std::size_t peer) noexcept;
  void clear();

 private:
  struct Turn {
    Operation* operation = nullptr;
    std::uint32_t lane = 0;
  };
  struct ToPeer {
    transport::Link* link = nullptr;
    Fifo<Turn> turns;
    int unsent = 0;              // messages that the link has not taken yet
    std::uint64_t messages = 0;  // so far
  };
  struct FromPeer {
    transport::Link* link = nullptr;
    Fifo<Turn> turns;
    Fifo<Posted> posted;
    std::uint64_t messages = 0;  // so far
  };

  Fifo<Turn>& turns(const algorithms::Lane& lane);
  FromPeer& from_peer(const transport::Link& link);
  static void expect_next(FromPeer& source) noexcept;

  Collectives& collectives_;
  Group& group_;
  transport::Channel channel_;
  bool has_checksums_;
  bool is_traced_;
  std::vector<ToPeer> sends_;  // by rank of the group
  std::vector<FromPeer> receives_;
};

}  // namespace tutti::detail
