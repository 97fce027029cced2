#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "algorithms/stream_program.h"
#include "lib/base/index.h"
#include "lib/collective/collectives.h"
#include "lib/gpu/pinned_memory.h"
#include "lib/group/checksum.h"
#include "transport/cuda_ipc/stream_links.h"

namespace tutti::detail {

/// Moves the messages of a communicator's staged links (transport/cuda_ipc/stream_links.h) between pinned memory and
/// the transports to other hosts, on channels of its own. Streams copy to and from pinned memory.
///
/// A message leaves when the sender's stream has written it to its slot, and the slot is free again when the transport
/// has taken all of it. It is read from the transport when the receiver's stream has freed the slot for it. Until then
/// it stays in the transport, whose own limits hold back the sender. So a staged link holds as many messages as any
/// other, or more, and streams that cannot deadlock with others cannot deadlock with these.
///
/// Each message has the frame of its call, as those of calls on host memory. Its place on its link says which one it
/// is.
///
/// Threading: the owner of the engine, where nothing else is said. The driver is never called there.
class StagedLinks final : public ChannelUser, public Pollable, public std::enable_shared_from_this<StagedLinks> {
 public:
  struct Message {
    int peer = 0;
    bool is_sent = false;      ///< by this rank, or else received
    std::uint64_t number = 0;  ///< on its link, from 1 on
    std::size_t bytes = 0;
  };
  /// A call that has messages over staged links, or none.
  struct Call {
    explicit Call(std::vector<Message> all);

    std::vector<Message> messages;
    std::size_t unsent;
    transport::Frame frame{};      // of all messages
    std::function<void()> then{};  // once all messages are sent
  };

  /// Any thread. All ranks use the same `channel`, which is even. Group, collectives and links exist until close().
  static std::shared_ptr<StagedLinks> open(Group& group, Collectives& collectives, transport::StreamLinks& links,
                                           transport::Channel channel);
  /// Any thread: ends everything. `is_drained`: no stream uses the links any more. Else their memory stays.
  void close(bool is_drained) noexcept;

  /// Any thread: those of a call's messages that go over staged links. `element`: size of what lies in slots.
  std::vector<Message> messages_of(const algorithms::StreamCommands& commands, std::size_t element) const;
  /// For the caller of one call after the other, who has a current context: memory for the slots of these messages.
  void get_memory(const std::vector<Message>& messages);
  /// In the order of the calls.
  void begin(const std::shared_ptr<Call>& call, const transport::Frame& frame);
  /// Calls `then`, now or later, when all messages of the call are sent, unless it fails before.
  void when_sent(Call& call, std::function<void()> then);
  /// The call has failed, since the group has: no message moves any more, and no transport uses the slots any more. Not
  /// to be called by a transport.
  void fail(Call& call) noexcept;
  /// Any thread: the group is about to say bye, so that a link which breaks is no failure from here on.
  void leave() noexcept;
  /// Whether a message waits until `peer` or the way to it takes it.
  bool has_unsent(int peer) const noexcept { return !to_[at(peer)].given.empty(); }

 private:
  struct Pinned {
    PinnedMemory memory;
    bool is_there = false;
  };
  struct Waiting {
    Message message;
    std::shared_ptr<Call> call;
  };
  struct ToPeer {
    Pinned slots{};
    transport::Link* link = nullptr;
    std::deque<Waiting> waiting{};  // for the stream
    std::deque<Waiting> given{};    // to the link, which has not taken all of it
  };
  struct FromPeer {
    Pinned slots{};
    transport::Link* link = nullptr;
    std::deque<Waiting> expected{};
    std::size_t posted = 0;  // of those expected: there is a slot for them
    Arriving arriving{};
  };

  StagedLinks(Group& group, Collectives& collectives, transport::StreamLinks& links, transport::Channel channel);

  void stop() noexcept;
  std::span<std::byte> bytes_of(const Message& message);
  bool send_next(int peer) noexcept;
  void sent(const Waiting& sent) noexcept;
  bool post_next(int peer) noexcept;

  bool knows(int rank) const noexcept override;
  transport::Acceptance arrived(transport::Link& from, const transport::Frame& frame) noexcept override;
  void view(transport::Link&, std::span<const std::byte>) noexcept override {}
  void received(transport::Link& from) noexcept override;
  void sent(transport::Link& to, transport::Token token) noexcept override;
  void failed(transport::Link& link, const Error& reason) noexcept override;

  bool progress() noexcept override;
  bool idle() const noexcept override { return is_stopped_ || (sending_.empty() && receiving_.empty()); }
  bool prepare_sleep() noexcept override { return !progress(); }
  void awake() noexcept override {}

  Group& group_;
  Collectives& collectives_;
  transport::StreamLinks& links_;
  const transport::Channel channel_;
  const std::shared_ptr<Engine> engine_;
  const bool has_checksums_;
  std::vector<ToPeer> to_;  // by rank
  std::vector<FromPeer> from_;
  std::vector<int> sending_, receiving_;  // peers with messages that wait for the stream
  bool is_stopped_ = false;
  bool has_left_ = false;
  std::shared_ptr<StagedLinks> kept_;  // itself, so that it stays
};

}  // namespace tutti::detail
