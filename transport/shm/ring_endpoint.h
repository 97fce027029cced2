#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/descriptor.h"
#include "transport/hello.h"
#include "transport/memory/slot_link.h"
#include "transport/reactor.h"
#include "transport/shm/memory.h"
#include "transport/shm/unix_socket.h"

namespace tutti::transport {

/// A message that hands new memory to a peer, once.
struct Introduction {
  HelloBytes hello;
  int peer;
  Channel channel;
  std::string socket;  ///< abstract name
  Descriptor memory;
};

/// Sends the memory to the peer, over a connection that is left in `socket`. `later`: its queue is full, try again.
/// Throws Error: {system} if this process lacks a resource, else {peer_lost}.
Attempt hand_over(const Introduction& introduction, Descriptor& socket);

class ShmEndpoint;

/// State shared by all endpoints of a transport.
struct EndpointContext {
  Reactor& reactor;
  SlotHost& host;
  std::vector<ShmEndpoint*> not_introduced{};  ///< endpoints whose peer had no room for another connection yet
};

/// One end of a ring in a memfd, with the Unix socket to the other end: a byte on it wakes the peer, and its end means
/// that the peer has left.
class ShmEndpoint final : public RingEndpoint {
 public:
  /// The receiver's end, with the socket on which the ring arrived.
  ShmEndpoint(MappedRing ring, Descriptor socket, EndpointContext& home);
  /// The sender's end; introduce() makes the connection.
  ShmEndpoint(MappedRing ring, Introduction introduction, EndpointContext& home);
  ~ShmEndpoint() override;

  RingMemory& ring() noexcept override { return *ring_.memory; }
  std::shared_ptr<RingMemory> share_ring() noexcept override { return ring_.memory; }
  std::size_t areas() const noexcept override { return ring_.areas; }
  void wake_peer() noexcept override;
  bool peer_left() const noexcept override { return left_; }
  void cut() noexcept override;
  bool introduced() const noexcept override { return !introduction_; }
  const Error* trouble() const noexcept override { return trouble_ ? &*trouble_ : nullptr; }
  bool read_peer(std::span<std::byte> to, std::uint64_t address) noexcept override;
  void say_unreadable(int error) noexcept override;

  /// Tries to send the ring to the peer. False: its queue is full, try again.
  bool introduce();

 private:
  void watch();
  void read_from();

  MappedRing ring_;
  Descriptor socket_;
  EndpointContext& home_;
  std::optional<Introduction> introduction_;
  std::optional<Error> trouble_;
  pid_t peer_process_ = 0;  ///< set at the first use
  bool left_ = false;
};

}  // namespace tutti::transport
