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

/// The links of one communicator's collectives: which operation may use which of them next, and which arriving message
/// belongs to which step.
///
/// On each link frames leave in the order of operations, and within one in the order of its plan. So the next message
/// on a link always belongs to the first receive posted there: no tags, no unexpected data. A message for which
/// nothing is posted yet stays in its link. Threading: the owner of the engine.
class LinkQueues {
 public:
  LinkQueues(Collectives& collectives, Group& group, transport::Channel channel);

  // ---- Operations
  /// The operation, the last that has begun, waits for its turn on each lane of its plan.
  void queue(Operation& operation) noexcept;
  /// The next operation may use this lane.
  void lane_done(Operation& operation, std::uint32_t lane) noexcept;
  /// False: the link takes the message later, and says so.
  bool send(Operation& operation, std::uint32_t step, int peer, std::span<const std::byte> bytes) noexcept;
  void post(Operation& operation, std::uint32_t step, int peer, std::span<std::byte> bytes) noexcept;

  // ---- Links
  transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept;
  void view(transport::Link& from, std::span<const std::byte> piece) noexcept;
  void received(transport::Link& from) noexcept;
  /// The link has taken a message that it had put off.
  void sent(transport::Link& to) noexcept;

  // ---- Failures
  /// The operation waits for a message of `peer`, or for `peer` to take one.
  bool is_awaited(int peer, const Operation& operation) const;
  /// What the next message of `peer` is for.
  struct Posted {
    Operation* operation = nullptr;
    std::uint32_t step = 0;
    std::span<std::byte> bytes;
    std::size_t seen = 0;
    Arriving arriving{};
  };
  /// Null: nothing is expected.
  const Posted* next_from(int peer) const {
    const Fifo<Posted>& posted = receives_[static_cast<std::size_t>(peer)].posted;
    return posted.empty() ? nullptr : &posted[0];
  }
  /// A message of `peer` that is not expected may lie in its link: looks again.
  void look_again(std::size_t peer) noexcept;
  void clear();

 private:
  struct Turn {
    Operation* operation = nullptr;
    std::uint32_t lane = 0;
  };
  struct SendQueue {
    transport::Link* link = nullptr;
    Fifo<Turn> turns;
    int unsent = 0;              // messages that the link has not taken yet
    std::uint64_t messages = 0;  // ever
  };
  struct RecvQueue {
    transport::Link* link = nullptr;
    Fifo<Turn> turns;
    Fifo<Posted> posted;
    std::uint64_t messages = 0;  // ever
  };

  Fifo<Turn>& turns(const algorithms::Lane& lane);
  RecvQueue& recv_queue(const transport::Link& link);

  Collectives& collectives_;
  Group& group_;
  transport::Channel channel_;
  bool has_checksums_;
  bool is_traced_;
  std::vector<SendQueue> sends_;  // by rank of the group
  std::vector<RecvQueue> receives_;
};

}  // namespace tutti::detail
