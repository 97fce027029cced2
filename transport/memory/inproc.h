#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transport/memory/slot_transport.h"

namespace tutti::transport {

/// Where ranks that are threads of one process find each other. Shared by their transports; thread-safe.
class InprocHub {
 public:
  explicit InprocHub(int ranks);
  ~InprocHub();
  InprocHub(const InprocHub&) = delete;
  InprocHub& operator=(const InprocHub&) = delete;

 private:
  friend class InprocTransport;
  friend class InprocEndpoint;
  struct Seat;

  std::shared_ptr<std::byte> shared_memory(Channel channel, std::size_t members, std::size_t bytes);
  Seat& seat(int rank) { return *seats_[static_cast<std::size_t>(rank)]; }

  std::vector<std::unique_ptr<Seat>> seats_;
  std::mutex boards_mutex_;
  struct SharedBoard {
    std::shared_ptr<std::byte> memory;
    std::size_t to_come = 0;  ///< members that have not fetched it yet: one may have left before another comes
  };
  std::map<Channel, SharedBoard> boards_;
};

/// A transport for ranks that are threads: for tests, examples and sanitizers. If it is destroyed without
/// close_channel(), peers see a death.
class InprocTransport final : public SlotTransport {
 public:
  InprocTransport(std::shared_ptr<InprocHub> hub, int rank, Reactor& reactor, const CopyPolicy& copy_policy = {});
  ~InprocTransport() override;

  const char* name() const override { return "inproc"; }
  std::string address() const override;
  /// The peer may have left since its board was looked at, which is no failure.
  void wake(int peer, Channel) noexcept override;

 private:
  std::unique_ptr<RingEndpoint> reach(int peer, Channel channel) override;
  /// Why a rank has left: what it said in a link that this rank has not looked at yet, if it did.
  Error last_words_of(int peer, Channel channel) const;
  bool notice() noexcept override;
  std::shared_ptr<std::byte> shared_memory(Channel channel, std::span<const int> members, std::size_t bytes) override;
  int rank() const noexcept override { return rank_; }

  std::shared_ptr<InprocHub> hub_;
  int rank_;
  std::uint64_t seen_ = 0;  // last value of the seat's event counter
};

}  // namespace tutti::transport
