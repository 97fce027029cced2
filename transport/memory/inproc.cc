// Slots between threads: rings on the heap, and an eventfd per rank to wake it.
//
// Each rank has a seat in the hub. A peer that makes a link to it, or closes one, increments the seat's event counter
// and writes the eventfd. The rank compares that counter in every pass.

#include "transport/memory/inproc.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "lib/base/descriptor.h"
#include "lib/base/system_calls.h"
#include "lib/base/system_error_text.h"

namespace tutti::transport {
namespace {

/// Threads share one address space, so there is nothing to read through the kernel.
CopyPolicy without_single_copy(CopyPolicy policy) {
  policy.single_copy = SingleCopy::never;
  return policy;
}

/// The memory of a link, shared by its two ends.
struct SharedRing {
  SharedRing() noexcept {}  // NOLINT: not = default, for the same reason as RingWithAreas'

  RingWithAreas<least_areas> memory;
  std::atomic<bool> sender_left{false};
  std::atomic<bool> receiver_left{false};
};

std::shared_ptr<std::byte> make_memory(std::size_t bytes) {
  void* const made = system_calls::mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (made == MAP_FAILED)
    throw Error(ErrorCode::system, fmt::format("cannot map {} KiB of shared memory: {}", bytes / 1024, refusal(errno)));
  return {static_cast<std::byte*>(made), [bytes](std::byte* old) { ::munmap(old, bytes); }};
}

struct Arrival {
  int from;
  Channel channel;
  std::shared_ptr<SharedRing> ring;
};

}  // namespace

struct InprocHub::Seat {
  Seat() : bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!bell) throw Error(ErrorCode::system, fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  }

  void ring() noexcept {
    const std::uint64_t once = 1;
    // A write fails only if the counter is at its limit, and then the descriptor is readable already.
    [[maybe_unused]] const auto written = ::write(bell.get(), &once, sizeof once);
  }
  void discard_bells() noexcept {
    std::uint64_t count;
    [[maybe_unused]] const auto read = ::read(bell.get(), &count, sizeof count);
  }
  void happened() noexcept {
    events.fetch_add(1);
    ring();
  }

  const Descriptor bell;
  std::atomic<std::uint64_t> events{0};
  std::mutex mutex;  // guards the members below
  std::vector<Arrival> arrivals;
  bool left = false;
};

/// One end of a ring between two seats.
class InprocEndpoint final : public RingEndpoint {
 public:
  enum class End { sender, receiver };

  InprocEndpoint(std::shared_ptr<InprocHub> hub, std::shared_ptr<SharedRing> ring, int peer, End end)
      : hub_(std::move(hub)), ring_(std::move(ring)), seat_(hub_->seat(peer)), end_(end) {}
  ~InprocEndpoint() override { tell_peer(); }

  RingMemory& ring() noexcept override { return ring_->memory.ring; }
  std::shared_ptr<RingMemory> share_ring() noexcept override { return {ring_, &ring_->memory.ring}; }
  void wake_peer() noexcept override { seat_.ring(); }
  bool peer_left() const noexcept override {
    if (cut_) return true;
    return (end_ == End::sender ? ring_->receiver_left : ring_->sender_left).load();
  }
  void cut() noexcept override {
    cut_ = true;
    tell_peer();
  }

 private:
  void tell_peer() noexcept {
    (end_ == End::sender ? ring_->sender_left : ring_->receiver_left).store(true);
    seat_.happened();
  }

  std::shared_ptr<InprocHub> hub_;
  std::shared_ptr<SharedRing> ring_;
  InprocHub::Seat& seat_;  // the peer's
  End end_;
  bool cut_ = false;
};

InprocHub::InprocHub(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) seats_.push_back(std::make_unique<Seat>());
}

InprocHub::~InprocHub() = default;

/// The first rank that asks makes the memory.
std::shared_ptr<std::byte> InprocHub::shared_memory(Channel channel, std::size_t members, std::size_t bytes) {
  const std::lock_guard lock(boards_mutex_);
  auto board = boards_.find(channel);
  if (board == boards_.end()) board = boards_.emplace(channel, SharedBoard{make_memory(bytes), members}).first;
  const auto taken = board->second.memory;
  if (--board->second.to_come == 0) boards_.erase(board);
  return taken;
}

InprocTransport::InprocTransport(std::shared_ptr<InprocHub> hub, int rank, Reactor& reactor,
                                 const CopyPolicy& copy_policy)
    : SlotTransport(reactor, without_single_copy(copy_policy)), hub_(std::move(hub)), rank_(rank) {
  InprocHub::Seat& seat = hub_->seat(rank_);
  this->reactor().watch(seat.bell.get(), [&seat] { seat.discard_bells(); });
}

InprocTransport::~InprocTransport() {
  InprocHub::Seat& seat = hub_->seat(rank_);
  reactor().unwatch(seat.bell.get());
  drop_links();
  std::vector<Arrival> unseen;
  {
    const std::lock_guard lock(seat.mutex);
    seat.left = true;
    unseen.swap(seat.arrivals);
  }
  for (Arrival& arrival : unseen) InprocEndpoint(hub_, arrival.ring, arrival.from, InprocEndpoint::End::receiver);
}

std::string InprocTransport::address() const { return fmt::format("inproc:{}", rank_); }

void InprocTransport::wake(int peer, Channel) noexcept {
  if (!is_cut()) hub_->seat(peer).ring();
}

std::unique_ptr<RingEndpoint> InprocTransport::reach(int peer, Channel channel) {
  address_of(peer);
  auto ring = std::make_shared<SharedRing>();
  InprocHub::Seat& seat = hub_->seat(peer);
  const bool has_left = [&] {
    const std::lock_guard lock(seat.mutex);
    if (!seat.left) seat.arrivals.push_back({rank_, channel, ring});
    return seat.left;
  }();
  if (has_left) throw last_words_of(peer, channel);
  seat.happened();
  return std::make_unique<InprocEndpoint>(hub_, std::move(ring), peer, InprocEndpoint::End::sender);
}

std::shared_ptr<std::byte> InprocTransport::shared_memory(Channel channel, std::span<const int> members,
                                                          std::size_t bytes) {
  return hub_->shared_memory(channel, members.size(), bytes);
}

Error InprocTransport::last_words_of(int peer, Channel channel) const {
  InprocHub::Seat& seat = hub_->seat(rank_);
  const std::lock_guard lock(seat.mutex);
  for (const Arrival& arrival : seat.arrivals) {
    const CloseRecord& record = arrival.ring->memory.ring.from_sender;
    const bool is_same_group = arrival.channel >> 1 == channel >> 1;  // it has two channels
    if (arrival.from != peer || !is_same_group) continue;
    if (record.departure.load(std::memory_order_acquire) != Departure::aborted) continue;
    if (const auto reason = abort_reason(record)) return *reason;
  }
  return Error{ErrorCode::peer_lost, fmt::format("rank {} is gone: its transport was destroyed", peer), peer};
}

bool InprocTransport::notice() noexcept {
  InprocHub::Seat& seat = hub_->seat(rank_);
  const std::uint64_t events = seat.events.load();
  if (events == seen_) return false;
  seen_ = events;
  std::vector<Arrival> arrivals;
  {
    const std::lock_guard lock(seat.mutex);
    arrivals.swap(seat.arrivals);
  }
  for (Arrival& arrival : arrivals)
    adopt(arrival.from, arrival.channel,
          std::make_unique<InprocEndpoint>(hub_, std::move(arrival.ring), arrival.from, InprocEndpoint::End::receiver));
  attention();
  return true;
}

}  // namespace tutti::transport
