// Slots between processes of one host.
//
// A rank that has its first message for another rank makes a ring, fills it, connects to the other rank's Unix socket
// and passes the ring's memory with a hello. The receiver admits processes of the same user that know the job's token.
// It checks size and seals of the memory, maps it, and finds the messages there. The socket stays open: it carries
// wake-ups, and the kernel reports a death only by ending it.

#include "transport/shm/shm_transport.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <variant>

#include "lib/base/net/socket.h"
#include "lib/base/system_error_text.h"
#include "transport/shm/probe.h"
#include "transport/shm/ring_endpoint.h"
#include "transport/shm/unix_socket.h"

namespace tutti::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t most_guests = 128;
constexpr seconds guest_patience{5};
constexpr seconds probe_patience{10};
constexpr milliseconds retry_interval{1};
constexpr milliseconds listening_pause{100};
/// Stands for all memory for boards while it is still to be sent. No communicator uses it.
constexpr Channel pool_channel = ~Channel{1};

JobToken token_of(std::string_view text) {
  JobToken token;
  if (text.size() != token.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the token of a job has {} bytes, not {}", token.size(), text.size()));
  std::memcpy(token.data(), text.data(), token.size());
  return token;
}

/// Derived from the name of a rank's listener, which the kernel chose and no other socket has.
std::string bell_of(const std::string& socket) { return socket + "b"; }

bool is_exhaustion(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

ShmTransport::ShmTransport(int rank, std::string_view token, Reactor& reactor, const Log& log,
                           const CopyPolicy& copy_policy)
    : SlotTransport(reactor, copy_policy),
      token_(token_of(token)),
      log_(log),
      address_(ShmAddress::here()),
      listener_(net::listen_at(net::any_unix_address(), {})),
      home_(std::make_unique<EndpointContext>(EndpointContext{reactor, *this})),
      pool_(rank) {
  spare_ = make_ring();  // a refusal is then known before any rank waits for a ring
  address_.rank = rank;
  address_.socket = net::local_address(listener_).name();
  bell_ = make_bell(bell_of(address_.socket));
  reactor.watch(bell_.get(), [this] { discard_bells(bell_); });
}

ShmTransport::~ShmTransport() {
  reactor().unwatch(bell_.get());
  stop_listening();
  drop_links();
}

void ShmTransport::set_peers(std::vector<std::string> addresses) {
  SlotTransport::set_peers(std::move(addresses));
  if (!probing_) spare_.reset();
  bells_.clear();
  ranks_here_ = 0;
  for (const std::string& text : this->addresses()) {
    const auto address = ShmAddress::parse(text);
    const bool offers = address && !address->socket.empty();
    bells_.push_back(offers ? bell_of(address->socket) : "");
    if (offers && same_host(text, address_.encode())) ++ranks_here_;
  }
  if (listening_ != Listening::yes) start_listening();
}

// ---- Going out -------------------------------------------------------------------------------------------------

/// The name of the peer's Unix socket.
std::string ShmTransport::socket_of(int peer) const {
  const auto target = ShmAddress::parse(address_of(peer));
  if (!target || target->socket.empty())
    throw Error(ErrorCode::peer_lost, fmt::format("rank {} offers no shared memory", peer), peer);
  if (!same_host(address_of(peer), address_.encode()) || target->user != address_.user)
    throw Error(ErrorCode::peer_lost, fmt::format("rank {} runs on another host or as another user", peer), peer);

  return target->socket;
}

std::unique_ptr<RingEndpoint> ShmTransport::reach(int peer, Channel channel) {
  std::string socket = socket_of(peer);
  NewRing made = spare_ ? std::move(*spare_) : make_ring(areas_among(ranks_here_));
  spare_.reset();
  Introduction introduction{encode(Hello{address_.rank, peer, channel}, token_), peer, channel, std::move(socket),
                            std::move(made.descriptor)};
  auto endpoint = std::make_unique<ShmEndpoint>(std::move(made.ring), std::move(introduction), *home_);
  if (!endpoint->introduce()) home_->not_introduced.push_back(endpoint.get());
  if (endpoint->trouble()) throw Error(*endpoint->trouble());
  return endpoint;
}

/// Needs no link: otherwise a rank that sleeps at a board would cost each rank that may wake it a ring.
void ShmTransport::wake(int peer, Channel) noexcept {
  if (!is_cut() && std::cmp_less(peer, bells_.size())) ring_bell(bell_, bells_[static_cast<std::size_t>(peer)]);
}

// ---- Shared memory ---------------------------------------------------------------------------------------------

std::shared_ptr<std::byte> ShmTransport::shared_memory(Channel channel, std::span<const int> members,
                                                       std::size_t bytes) {
  if (members.front() == address_.rank) {
    NewMemory made = make_memory("tutti-window", bytes);
    for (const int peer : members.subspan(1)) send_memory(peer, Purpose::board, channel, made.descriptor);
    send_unsent();
    return std::move(made.memory);
  }
  const Descriptor arrived = take(members.front(), channel);
  if (!arrived) return nullptr;
  auto mapped = map_memory(arrived, bytes);
  if (auto* const memory = std::get_if<SharedMemory>(&mapped)) return std::move(*memory);
  throw Error(ErrorCode::system, fmt::format("cannot use the memory that rank {} shares: {}", members.front(),
                                             std::get<std::string>(mapped)));
}

void ShmTransport::give(int peer, Channel name, const Descriptor& descriptor) {
  send_memory(peer, Purpose::board, name, descriptor);
  send_unsent();
}

Descriptor ShmTransport::take(int peer, Channel name) {
  const auto found = arrived_.find(name);
  if (found == arrived_.end() || found->second.from != peer) return {};
  Arrived arrived = std::move(found->second);
  arrived_.erase(found);
  if (!arrived.memory)
    throw Error(ErrorCode::system,
                fmt::format("cannot take the memory that rank {} shares: {}", peer, refusal(EMFILE)));
  return std::move(arrived.memory);
}

void ShmTransport::send_memory(int peer, Purpose purpose, Channel name, const Descriptor& memory) {
  const Hello hello{.from = address_.rank, .to = peer, .channel = name, .purpose = purpose};
  const Channel channel = purpose == Purpose::pool ? pool_channel : name;
  Descriptor copy = memory.duplicate();
  if (!copy) throw Error(ErrorCode::system, "cannot share memory with the ranks of this host: " + refusal(errno));
  unsent_.push_back({encode(hello, token_), peer, channel, socket_of(peer), std::move(copy)});
}

std::shared_ptr<std::byte> ShmTransport::board_memory(Channel name, std::span<const int> members,
                                                      const MemoryNeed& need) {
  const bool is_first = members.front() == address_.rank;
  address_of(is_first ? members.back() : members.front());  // throws if this rank is cut off
  if (!is_first) return pool_.find(name, members.front(), need.bytes);
  auto memory = pool_.give(name, members, need,
                           [&](int peer, const Descriptor& chunk) { send_memory(peer, Purpose::pool, name, chunk); });
  send_unsent();
  if (pool_.is_awaited())
    for (const int peer : members.subspan(1)) wake(peer, name);
  return memory;
}

/// A chunk that is still to be sent may be for any part of a group's board, so all groups count as not flushed.
bool ShmTransport::flushed(Channel channel) const noexcept {
  return std::ranges::none_of(
      unsent_, [=](const Introduction& offer) { return offer.channel == channel || offer.channel == pool_channel; });
}

void ShmTransport::closed(Channel channel, bool aborted, bool has_unused_board) noexcept {
  arrived_.erase(channel);
  std::erase_if(unsent_, [=](const Introduction& offer) { return offer.channel == channel; });
  for (const Channel name : {channel, name_of_areas(channel), name_of_slots(channel)}) {
    pool_.forget(name);
    if (aborted) pool_.group_failed(name);
  }
  if (has_unused_board && !aborted) pool_.withdraw(channel);
}

bool ShmTransport::prepare_sleep() noexcept {
  pool_.begin_to_wait();
  return SlotTransport::prepare_sleep();
}

void ShmTransport::awake() noexcept {
  pool_.end_waiting();
  SlotTransport::awake();
}

/// A peer that has gone needs no memory; its departure is noticed elsewhere.
void ShmTransport::send_unsent() noexcept {
  std::erase_if(unsent_, [](const Introduction& offer) {
    try {
      Descriptor socket;
      return hand_over(offer, socket) != Attempt::later;
    } catch (const Error& error) {
      return error.code() != ErrorCode::system;  // try again when descriptors are free
    }
  });
}

// ---- Letting in ------------------------------------------------------------------------------------------------

void ShmTransport::start_listening() {
  listening_ = Listening::yes;
  reactor().watch(listener_.get(), [this] { accept_all(); });
}

void ShmTransport::stop_listening() noexcept {
  if (listening_ == Listening::yes) reactor().unwatch(listener_.get());
  listening_ = Listening::no;
  for (const Unidentified& connection : unidentified_) reactor().unwatch(connection.socket.get());
  unidentified_.clear();
}

/// The rank that could not connect will report that this one is gone; the reason and the remedy are known here.
void ShmTransport::warn_exhausted(const std::string& what, int error) {
  if (!std::exchange(warned_exhausted_, true))
    log_.warn(fmt::format("rank {} cannot {} from other ranks of this host: {}", address_.rank, what, refusal(error)));
}

void ShmTransport::unreadable(int error) noexcept {
  if (std::exchange(unreadable_, true)) return;
  const std::string text =
      fmt::format("rank {} cannot read the memory of other ranks and copies long messages through slots: {}",
                  address_.rank, refusal(error));
  if (copy_policy().single_copy == SingleCopy::always) return log_.warn(text);
  log_.info(Log::Subsystem::shm, text);
}

void ShmTransport::accept_all() {
  for (int i = 0; i < net::accepts_at_once; ++i) {
    Descriptor socket = net::accept_next(listener_);
    if (!socket && is_exhaustion(errno)) {
      warn_exhausted("accept links", errno);
      // Waiting connections keep the listener readable, so stop watching it for a while instead of spinning.
      reactor().unwatch(listener_.get());
      listening_ = Listening::paused;
      listens_again_ = Clock::now() + listening_pause;
    }
    if (!socket) return;
    if (net::user_of_peer(socket) == address_.user && !read_hello(socket))
      keep({std::move(socket), Clock::now() + guest_patience});
  }
}

/// Keeps a connection that has not sent a hello. If there are too many, the one that has been silent longest is closed.
void ShmTransport::keep(Unidentified connection) {
  if (unidentified_.size() == most_guests) {
    reactor().unwatch(unidentified_.front().socket.get());
    unidentified_.erase(unidentified_.begin());
  }
  const int descriptor = connection.socket.get();
  unidentified_.push_back(std::move(connection));
  reactor().watch(descriptor, [this, descriptor] { read_from(descriptor); });
}

void ShmTransport::read_from(int descriptor) {
  const auto found = std::find_if(unidentified_.begin(), unidentified_.end(), [=](const Unidentified& connection) {
    return connection.socket.get() == descriptor;
  });
  reactor().unwatch(descriptor);
  Unidentified connection = std::move(*found);
  unidentified_.erase(found);
  if (!read_hello(connection.socket)) keep(std::move(connection));
}

/// Reads the hello and takes the ring, or closes the connection. False: nothing has arrived yet.
bool ShmTransport::read_hello(Descriptor& socket) {
  HelloBytes bytes{};
  Received received = receive_with_descriptor(socket, bytes);
  if (received.attempt == Attempt::later) return false;
  if (received.no_room) warn_exhausted("take the memory of links", EMFILE);
  Descriptor caller = std::move(socket);  // closed unless it becomes part of an endpoint
  const bool spoke = received.attempt == Attempt::done || received.no_room;
  const auto hello = spoke ? decode_hello(bytes, token_) : std::nullopt;
  if (!hello || !is_expected(*hello)) return true;
  if (hello->purpose == Purpose::pool) {
    if (received.no_room) {
      pool_.add_refused(hello->from, hello->channel, refusal(EMFILE));
    } else {
      pool_.add(hello->from, hello->channel, received.descriptor);
    }
    return true;
  }
  if (hello->purpose == Purpose::board) {
    if (!was_closed(hello->channel))
      arrived_.try_emplace(hello->channel, Arrived{hello->from, std::move(received.descriptor)});
    return true;
  }
  if (received.no_room) return true;  // the connection ends, and with it the sender's link
  errno = 0;
  auto mapped = map_ring(received.descriptor);
  if (auto* ring = std::get_if<MappedRing>(&mapped)) {
    adopt(hello->from, hello->channel, std::make_unique<ShmEndpoint>(std::move(*ring), std::move(caller), *home_));
  } else if (errno != 0) {
    warn_exhausted("map the memory of links", errno);
  }
  return true;
}

bool ShmTransport::is_expected(const Hello& hello) const {
  const auto from = static_cast<std::size_t>(hello.from);
  return hello.to == address_.rank && hello.from >= 0 && from < addresses().size() && !addresses()[from].empty() &&
         (hello.channel == probe_channel) == probing_;
}

bool ShmTransport::notice() noexcept {
  if (home_->not_introduced.empty() && unsent_.empty() && unidentified_.empty() && listening_ == Listening::yes)
    return false;
  const auto now = Clock::now();
  while (!unidentified_.empty() && unidentified_.front().until <= now) {
    reactor().unwatch(unidentified_.front().socket.get());
    unidentified_.erase(unidentified_.begin());
  }
  if (listening_ == Listening::paused && listens_again_ <= now) start_listening();
  std::erase_if(home_->not_introduced, [](ShmEndpoint* endpoint) { return endpoint->introduce(); });

  send_unsent();

  if (!home_->not_introduced.empty() || !unsent_.empty()) reactor().wake_by(now + retry_interval);
  if (listening_ == Listening::paused) reactor().wake_by(listens_again_);
  if (!unidentified_.empty()) reactor().wake_by(unidentified_.front().until);
  return false;
}

// ---- Probing ---------------------------------------------------------------------------------------------------

std::optional<std::string> ShmTransport::probe(const std::vector<std::string>& host_addresses, int position,
                                               Clock::time_point deadline) {
  std::vector<int> ranks;
  std::vector<std::string> by_rank;
  for (const std::string& text : host_addresses) {
    const auto address = ShmAddress::parse(text);
    if (!address || address->rank < 0) return fmt::format("a rank of this host offers no shared memory (\"{}\")", text);
    ranks.push_back(address->rank);
    by_rank.resize(std::max(by_rank.size(), static_cast<std::size_t>(address->rank) + 1));
    by_rank[static_cast<std::size_t>(address->rank)] = text;
  }
  const std::size_t here = static_cast<std::size_t>(position);
  const int next = ranks[(here + 1) % ranks.size()];
  const int previous = ranks[(here + ranks.size() - 1) % ranks.size()];

  probing_ = true;
  set_peers(std::move(by_rank));
  // The caller needs time, too, for what it does after a failed probe.
  const auto now = Clock::now();
  deadline = std::min<Clock::time_point>(now + (deadline - now) / 2, now + probe_patience);
  auto outcome = probe_transfer(*this, reactor(), address_.rank, next, previous, deadline);
  stop_listening();
  probing_ = false;
  SlotTransport::set_peers({});
  return outcome;
}

}  // namespace tutti::transport
