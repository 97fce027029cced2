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

/// What the peer must be told of new memory, once.
struct Introduction {
  HelloBytes hello;
  int peer;
  Channel channel;
  std::string socket;  ///< abstract name
  Descriptor memory;
};

/// Hands the memory to the peer, on a connection that is `socket` afterwards. `later`: its queue is full, try again.
/// Throws Error: {system} when this process lacks something, else {peer_lost}.
Attempt hand_over(const Introduction& introduction, Descriptor& socket);

class ShmEndpoint;

/// What all endpoints of a transport share.
struct WireHome {
  Reactor& reactor;
  SlotHost& host;
  std::vector<ShmEndpoint*> strangers{};  ///< whose peer had no room for another connection yet
};

/// One end of a ring in a memfd, and the Unix socket to the other end: a byte on it is a bell, its end is a departure.
class ShmEndpoint final : public RingEndpoint {
 public:
  /// The receiver's end, with the socket on which the ring came.
  ShmEndpoint(MappedRing ring, Descriptor socket, WireHome& home);
  /// The sender's end; introduce() makes the connection.
  ShmEndpoint(MappedRing ring, Introduction introduction, WireHome& home);
  ~ShmEndpoint() override;

  RingMemory& ring() noexcept override { return *ring_.memory; }
  std::size_t areas() const noexcept override { return ring_.areas; }
  void wake_peer() noexcept override;
  bool peer_left() const noexcept override { return left_; }
  void cut() noexcept override;
  bool introduced() const noexcept override { return !introduction_; }
  const Error* trouble() const noexcept override { return trouble_ ? &*trouble_ : nullptr; }
  bool read_peer(std::span<std::byte> to, std::uint64_t address) noexcept override;
  void say_unreadable(int error) noexcept override;

  /// Tries to hand the ring to the peer. False: its queue is full, try again.
  bool introduce();

 private:
  void watch();
  void hear();

  MappedRing ring_;
  Descriptor socket_;
  WireHome& home_;
  std::optional<Introduction> introduction_;
  std::optional<Error> trouble_;
  pid_t peer_process_ = 0;  ///< once it was asked for
  bool left_ = false;
};

}  // namespace tutti::transport
