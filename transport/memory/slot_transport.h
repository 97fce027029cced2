#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/closed_channels.h"
#include "transport/memory/board.h"
#include "transport/memory/slot_link.h"
#include "transport/reactor.h"

namespace tutti::transport {

/// The areas and the slots of a board are memory with names of their own. Boards belong to channels of collectives,
/// which are even.
constexpr Channel name_of_areas(Channel channel) { return channel | 1; }
constexpr Channel name_of_slots(Channel channel) { return ~channel; }

/// The common part of transports made of slots. A subclass adds how rings reach the peer, how a sleeping peer is woken,
/// and how the departure of a peer is noticed.
///
/// The owner must call Reactor::poll() now and then while it does not sleep: connections and departures are noticed
/// there.
class SlotTransport : public Transport, protected SlotHost {
 public:
  ~SlotTransport() override;

  void set_peers(std::vector<std::string> addresses) override;
  void set_sink(Sink& sink) override { sink_ = &sink; }
  Link& open(int peer, Channel channel) override;
  Board* board(Channel channel, std::span<const int> members, BoardPart with) override;
  bool has_boards() const noexcept override { return true; }
  void wake(int peer, Channel channel) noexcept override = 0;
  void close_channel(Channel channel, Clock::time_point deadline) noexcept override;
  void abort_channel(Channel channel, const Error& reason) noexcept override;
  void cut() noexcept override;
  /// Call it before there are links, if there are more ranks than cores.
  void share_cores() noexcept {
    copy_policy_.cores_are_shared = true;
    copy_policy_.clocks.measure_reading();
  }

  bool progress() noexcept override;
  bool prepare_sleep() noexcept override;
  void awake() noexcept override;

 protected:
  SlotTransport(Reactor& reactor, const CopyPolicy& copy_policy) : reactor_(reactor), copy_policy_(copy_policy) {}

  /// Looks for news about peers: new links go to adopt(), departures to attention(). True if there are any, or if it
  /// must be called again soon. Called in every progress(), so it must be cheap.
  virtual bool notice() noexcept = 0;

  virtual int rank() const noexcept = 0;
  const CopyPolicy& copy_policy() const noexcept override { return copy_policy_; }
  /// The channel has no memory left to hand over.
  virtual bool flushed(Channel) const noexcept { return true; }
  /// The channel has been closed or aborted, together with everything that belongs to it. `has_unused_board`: it had a
  /// board, and this rank has begun no round there.
  virtual void closed(Channel, bool /*aborted*/, bool /*has_unused_board*/) noexcept {}
  /// Memory for a board, or for its areas, under `name`. Like shared_memory(), but the memory is reused by one group
  /// after the other, so only some of it is zeros.
  virtual std::shared_ptr<std::byte> board_memory(Channel name, std::span<const int> members, const MemoryNeed& need) {
    return shared_memory(name, members, need.bytes);
  }
  bool was_closed(Channel channel) const noexcept { return closed_.find(channel) != nullptr; }

  /// Adds a link that `peer` has made to this rank.
  void adopt(int peer, Channel channel, std::unique_ptr<RingEndpoint> endpoint);
  /// Throws Error{peer_lost} if the peer has none, or after cut().
  const std::string& address_of(int peer) const;
  const std::vector<std::string>& addresses() const { return addresses_; }
  Reactor& reactor() { return reactor_; }
  bool is_cut() const noexcept { return cut_; }
  /// For destructors of subclasses, whose members the endpoints use.
  void drop_links() noexcept;

  void attention() noexcept override { attention_ = true; }

 private:
  OutboundSlotLink& link_to(int peer, Channel channel);
  std::shared_ptr<Areas> areas(int peer, Channel channel) override;
  std::shared_ptr<CopyChoice> choice(Channel channel);
  void backlog(OutboundSlotLink& link) noexcept override;
  bool push_backlog() noexcept;
  bool attend() noexcept;
  void flush(Channel channel, Clock::time_point deadline) noexcept;
  void destroy(Channel channel, const Error* reason) noexcept;
  void abort_board(Channel channel, const Error& reason) noexcept;
  template <class Action>
  void for_each(Channel channel, Action&& action) noexcept;

  Reactor& reactor_;
  CopyPolicy copy_policy_;
  Sink* sink_ = nullptr;
  std::vector<std::string> addresses_;
  std::map<std::pair<Channel, int>, std::unique_ptr<OutboundSlotLink>> outbound_;
  std::vector<std::unique_ptr<InboundSlotLink>> inbound_;
  std::map<std::pair<Channel, int>, std::weak_ptr<Areas>> areas_;  // of their links
  std::map<Channel, std::weak_ptr<CopyChoice>> choices_;           // where cores are shared
  struct Shared {
    Board board;
    std::vector<int> members;
  };
  std::map<Channel, Shared> boards_;
  std::vector<OutboundSlotLink*> backlog_;
  ClosedChannels<std::optional<Error>> closed_;  // with the reasons of those that were aborted
  bool attention_ = false;
  bool cut_ = false;
};

}  // namespace tutti::transport
