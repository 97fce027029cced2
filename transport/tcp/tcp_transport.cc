// The transport: keeps the links, gives them their turns, and ends channels.

#include "transport/tcp/tcp_transport.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>

#include "transport/acceptor.h"
#include "transport/hello.h"
#include "transport/stream_socket.h"
#include "transport/tcp/arrivals.h"
#include "transport/tcp/in_link.h"
#include "transport/tcp/out_link.h"
#include "transport/tcp/tcp_context.h"

namespace tutti::transport {
namespace {

using namespace std::chrono_literals;

constexpr unsigned passes_per_poll = 64;
constexpr int most_misses = 256;  // of all hot links together; then links cool down
/// Fewer than the ten packets that a new connection may have under way.
constexpr int per_acknowledgement_on_shared_cores = 4;
constexpr std::chrono::milliseconds shortest_check = 200ms;
constexpr std::chrono::milliseconds longest_check = 1s;
/// How long an abort may take to reach a peer, and how long the connection that it ends stays open.
constexpr auto courier_time = 1s;
/// All aborts of one courier_time together wait that long for their couriers. A rank may end hundreds of channels at
/// once, and a peer that is lost answers no courier.
constexpr auto first_flush = 10ms;
constexpr auto flush_turn = 2ms;

net::Address address_from(const std::string& text) {
  const auto address = net::parse_address(text, 0);
  if (!address)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cannot listen on \"{}\": it is not a numeric IPv4 or IPv6 address", text));
  return *address;
}

std::vector<net::Address> addresses_from(const std::vector<std::string>& texts) {
  std::vector<net::Address> addresses;
  for (const std::string& text : texts) addresses.push_back(address_from(text));
  return addresses;
}

std::vector<std::byte> bye_message() {
  const FrameBytes bytes = encode(Frame{.kind = FrameKind::bye});
  return {bytes.begin(), bytes.end()};
}

}  // namespace

struct TcpTransport::Chunk {
  alignas(64) std::array<std::byte, std::size_t{128} * 1024> memory;
};

/// Sends an abort on a connection of its own, and meanwhile keeps the link's connection open, so that the peer does not
/// see its end first.
struct TcpTransport::Courier {
  std::vector<std::byte> message;
  std::unique_ptr<tcp::OutLink> link;
  std::vector<net::Socket> kept_open;
  Clock::time_point until;
};

TcpTransport::TcpTransport(int rank, const TcpOptions& options, Reactor& reactor)
    : chunk_(std::make_unique<Chunk>()),
      context_(std::make_unique<tcp::TcpContext>(tcp::TcpContext{.rank = rank,
                                                                 .reactor = reactor,
                                                                 .key = options.key,
                                                                 .tls_proxies = options.tls_proxies,
                                                                 .congestion = options.congestion,
                                                                 .connections = options.connections,
                                                                 .own_addresses = addresses_from(options.own_addresses),
                                                                 .connect_timeout = options.connect_timeout,
                                                                 .lost_after = options.lost_after})),
      arrivals_(std::make_unique<tcp::Arrivals>()),
      acceptor_(options.acceptor ? options.acceptor
                                 : std::make_shared<Acceptor>(address_from(options.bind_address),
                                                              Credentials{options.key, rank, options.tls_proxies},
                                                              AcceptorOptions{.congestion = options.congestion,
                                                                              .lost_after = options.lost_after,
                                                                              .patience = options.hello_timeout},
                                                              options.log)) {
  context_->chunk = chunk_->memory;
  acceptor_->serve(Purpose::link, [this](const Hello& hello, net::Socket socket) {
    arrivals_->push(hello, std::move(socket));
    context_->reactor.interrupt();
  });
}

TcpTransport::~TcpTransport() {
  serve_couriers();
  std::vector<tcp::OutLink*> links;
  for (const Courier& courier : couriers_)
    if (courier.link) links.push_back(courier.link.get());
  if (!links.empty()) flush(links, couriers_.back().until);
  acceptor_->dismiss(Purpose::link);
}

std::string TcpTransport::address() const { return acceptor_->address(); }
void TcpTransport::set_peers(std::vector<std::string> addresses) { context_->addresses = std::move(addresses); }
void TcpTransport::set_within_host(std::vector<bool> ranks) { context_->within_host = std::move(ranks); }

void TcpTransport::share_cores() noexcept {
  context_->messages_per_acknowledgement = per_acknowledgement_on_shared_cores;
}
void TcpTransport::set_sink(Sink& sink) { context_->sink = &sink; }
std::size_t TcpTransport::unproved() const { return acceptor_->unproved(); }

// ---- Links -----------------------------------------------------------------------------------------------------

Link& TcpTransport::open(int peer, Channel channel) {
  arrivals_->open(channel);
  auto& link = out_links_[{channel, peer, false}];
  if (!link) link = std::make_unique<tcp::OutLink>(*context_, peer, channel);
  return *link;
}

Link& TcpTransport::open_aside(int peer, Channel channel) {
  auto& link = out_links_[{channel, peer, true}];
  if (!link) link = std::make_unique<tcp::OutLink>(*context_, peer, channel, tcp::OutLink::Manner::quiet);
  return *link;
}

bool TcpTransport::may_bring_more(int peer, Channel channel) const noexcept {
  return std::ranges::any_of(context_->in_links, [=](const auto& link) {
    return link->peer() == peer && link->channel() == channel && !link->is_over();
  });
}

void TcpTransport::let_in() noexcept {
  for (tcp::Arrivals::Arrival& arrival : arrivals_->take()) {
    if (arrival.from < 0 || !std::cmp_less(arrival.from, context_->addresses.size())) continue;
    // If it is encrypted, these sockets are not TCP's, which keep the system's algorithm.
    if (context_->is_within_host(arrival.from))
      for (const net::Socket& socket : arrival.sockets) stays_within_host(socket, context_->congestion);
    context_->in_links.push_back(
        std::make_unique<tcp::InLink>(*context_, arrival.from, arrival.channel, std::move(arrival.sockets)));
  }
}

/// Tells the senders, backwards on their connections, and closes this rank's ends, except those on which it sends, too.
void TcpTransport::dismiss_senders(Channel channel, std::span<const std::byte> closing_message) noexcept {
  for (const auto& link : context_->in_links)
    if (link->channel() == channel) link->dismiss(closing_message);
  std::erase_if(context_->in_links,
                [channel](const auto& link) { return link->channel() == channel && !link->has_writer(); });
}

/// Peers that send to this rank, now or later, are dismissed first. Otherwise two ranks would wait for each other if
/// both close while each has more for the other than the network holds.
void TcpTransport::close_channel(Channel channel, Clock::time_point deadline) noexcept {
  const auto closing_message = arrivals_->close(channel, bye_message());
  let_in();  // connections that came before
  dismiss_senders(channel, closing_message);
  const auto begin = out_links_.lower_bound({channel, -1, false});
  std::vector<tcp::OutLink*> links;
  for (auto entry = begin; entry != out_links_.end() && entry->first.channel == channel; ++entry) {
    entry->second->say_bye();
    links.push_back(entry->second.get());
  }
  flush(links, deadline);
  // To close a connection with unread data resets it, and discards what has not left this host.
  for (const auto& link : context_->in_links)
    if (link->channel() == channel) link->drain();
  forget(channel);
}

/// Gives the links turns until all that they have queued has gone, or until `deadline`. So a peer that does not answer
/// does not hold up the others.
void TcpTransport::flush(std::span<tcp::OutLink* const> links, Clock::time_point deadline) noexcept {
  for (bool waiting = !links.empty(); waiting && Clock::now() < deadline;) {
    waiting = false;
    for (tcp::OutLink* const link : links)
      if (!link->flush(std::min(deadline, Clock::now() + flush_turn))) waiting = true;
    context_->reactor.poll();
  }
}

void TcpTransport::forget(Channel channel) noexcept {
  std::erase_if(out_links_, [channel](const auto& entry) { return entry.first.channel == channel; });
  std::erase_if(context_->in_links, [channel](const auto& link) { return link->channel() == channel; });
}

/// A peer may be told twice: backwards on a connection to this rank, which it may not read, and by a courier.
void TcpTransport::abort_channel(Channel channel, const Error& reason) noexcept {
  const auto closing_message = arrivals_->close(channel, abort_message(reason));
  let_in();  // connections that came before
  dismiss_senders(channel, closing_message);

  const auto now = Clock::now();
  const auto until = now + courier_time;
  std::vector<tcp::OutLink*> links;
  const auto begin = out_links_.lower_bound({channel, -1, false});
  for (auto entry = begin; entry != out_links_.end() && entry->first.channel == channel; ++entry) {
    const auto& [name, link] = *entry;
    if (link->ended()) continue;
    Courier courier{{closing_message.begin(), closing_message.end()}, {}, link->release(), until};
    if (!name.aside) {
      courier.link = std::make_unique<tcp::OutLink>(*context_, name.peer, channel, tcp::OutLink::Manner::courier);
      courier.link->send(abort_frame(reason), std::span(courier.message).subspan(frame_size), 0);
      courier.link->progress();
      links.push_back(courier.link.get());
    }
    couriers_.push_back(std::move(courier));
  }
  forget(channel);

  // A program that ends because of the failure may not come back here.
  if (now - flushing_since_ >= courier_time) {
    flushing_since_ = now;
    flushed_ = {};
  }
  flush(links, now + first_flush - flushed_);
  flushed_ += Clock::now() - now;
}

void TcpTransport::cut() noexcept {
  context_->cut = true;
  arrivals_->shut();
  for (const auto& link : context_->in_links) link->cut();
  for (const auto& [key, link] : out_links_) link->cut();
}

// ---- Progress --------------------------------------------------------------------------------------------------

bool TcpTransport::progress() noexcept {
  const bool suspicious = !context_->losses.empty();
  if (suspicious || ++passes_ % passes_per_poll == 0) context_->reactor.poll();
  const std::uint64_t looked = suspicious ? arrivals_->looked.load(std::memory_order_acquire) : 0;
  bool moved = arrivals_->any();
  if (moved) let_in();
  moved |= serve_links();
  if (!couriers_.empty()) moved |= serve_couriers();
  if (suspicious || !context_->losses.empty()) moved |= report_losses(looked);
  return moved;
}

/// The sink may add links to both lists meanwhile.
bool TcpTransport::serve_links() noexcept {
  bool moved = false;
  auto& hot = context_->hot;
  const int patience = most_misses / static_cast<int>(hot.size() + 1);
  for (std::size_t i = 0; i < hot.size();) {
    tcp::InLink* const link = hot[i];
    moved |= link->progress();
    if (link->idle() || !link->wanted() || link->misses() > patience) {
      link->cool();
      hot[i] = hot.back();
      hot.pop_back();
    } else {
      ++i;
    }
  }
  auto& busy = context_->busy;
  for (std::size_t i = 0; i < busy.size();) {
    tcp::OutLink* const link = busy[i];
    moved |= link->progress();
    if (link->retire()) {
      busy[i] = busy.back();
      busy.pop_back();
    } else {
      ++i;
    }
  }
  return moved;
}

bool TcpTransport::serve_couriers() noexcept {
  const auto now = Clock::now();
  return std::erase_if(couriers_, [now](const Courier& courier) { return now >= courier.until; }) > 0;
}

/// Reports certain losses first, since they may explain the echoes. An echo waits until every connection that was at
/// the acceptor when it was noticed has been let in, and then for a pass in which everything was read. `looked` was
/// read before that pass.
bool TcpTransport::report_losses(std::uint64_t looked) noexcept {
  bool moved =
      report_losses_if([](const tcp::TcpContext::Loss& loss) { return loss.certainty == tcp::Certainty::sure; });
  moved |= report_losses_if([=](const tcp::TcpContext::Loss& loss) { return loss.look != 0 && loss.look <= looked; });
  ask_for_look();
  return moved;
}

void TcpTransport::ask_for_look() noexcept {
  const auto is_new = [](const tcp::TcpContext::Loss& loss) { return loss.look == 0; };
  if (std::none_of(context_->losses.begin(), context_->losses.end(), is_new)) return;
  ++looks_;
  for (tcp::TcpContext::Loss& loss : context_->losses)
    if (is_new(loss)) loss.look = looks_;
  acceptor_->look(Purpose::link, [this, look = looks_] {
    arrivals_->looked.store(look, std::memory_order_release);
    context_->reactor.interrupt();
  });
}

template <class Due>
bool TcpTransport::report_losses_if(Due due) noexcept {
  std::vector<tcp::TcpContext::Loss> reports;
  for (const tcp::TcpContext::Loss& loss : context_->losses)
    if (due(loss)) reports.push_back(loss);
  std::erase_if(context_->losses, due);
  for (const tcp::TcpContext::Loss& loss : reports) {
    end_others_like(*loss.link, loss.reason);
    context_->sink->failed(*loss.link, loss.reason);
  }
  return !reports.empty();
}

/// An abort may come on a connection of its own. Then it counts for the other connections of its sender, too.
void TcpTransport::end_others_like(const Link& failed, const Error& reason) noexcept {
  const auto is_failed = [&](const auto& link) { return link.get() == &failed; };
  if (std::none_of(context_->in_links.begin(), context_->in_links.end(), is_failed)) return;
  for (const auto& link : context_->in_links)
    if (!is_failed(link) && link->channel() == failed.channel() && link->peer() == failed.peer()) link->follow(reason);
}

/// A sleeping rank may wait for something that its connection will never bring: a firewall that has forgotten the
/// connection drops everything without an answer, and the kernel goes on trying for a quarter of an hour.
void TcpTransport::check_acknowledgements() noexcept {
  if (out_links_.empty()) return;
  const auto now = Clock::now();
  if (now >= next_check_) {
    const auto pause = std::clamp<std::chrono::milliseconds>(context_->lost_after / 5, shortest_check, longest_check);
    next_check_ = now + pause;
    for (const auto& [name, link] : out_links_) link->check_acknowledgements(now, pause);
  }
  context_->reactor.wake_by(next_check_);
}

bool TcpTransport::prepare_sleep() noexcept {
  check_acknowledgements();
  const std::uint64_t looked = arrivals_->looked.load(std::memory_order_acquire);
  for (const tcp::TcpContext::Loss& loss : context_->losses)
    if (loss.certainty == tcp::Certainty::sure || loss.look <= looked) return false;
  for (tcp::OutLink* const link : context_->busy) link->arm();
  if (!couriers_.empty()) context_->reactor.wake_by(couriers_.front().until);
  return true;
}

}  // namespace tutti::transport
