#include "tests/transport/mesh.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>

#include "transport/memory/inproc.h"
#include "transport/shm/shm_transport.h"
#include "transport/sleep.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti::transport::testing {
namespace {

constexpr const char* job_token = "0123456789abcdef";

std::vector<std::unique_ptr<Transport>> make_inproc(const std::vector<Reactor*>& reactors) {
  const auto hub = std::make_shared<InprocHub>(static_cast<int>(reactors.size()));
  std::vector<std::unique_ptr<Transport>> made;
  for (Reactor* reactor : reactors)
    made.push_back(std::make_unique<InprocTransport>(hub, static_cast<int>(made.size()), *reactor));
  return made;
}

std::vector<std::unique_ptr<Transport>> make_shm(const std::vector<Reactor*>& reactors, SingleCopy single_copy) {
  std::vector<std::unique_ptr<Transport>> made;
  for (Reactor* reactor : reactors)
    made.push_back(std::make_unique<ShmTransport>(static_cast<int>(made.size()), job_token, *reactor, Log{},
                                                  CopyPolicy{.single_copy = single_copy}));
  return made;
}

std::vector<std::unique_ptr<Transport>> make_tcp(const std::vector<Reactor*>& reactors, bool encrypted,
                                                 std::chrono::seconds connect_timeout, std::size_t connections = 1) {
  TcpOptions options;
  options.connections = connections;
  options.key = Secret::from_text(job_token, "the test");
  options.connect_timeout = connect_timeout;
  std::vector<std::unique_ptr<Transport>> made;
  for (Reactor* reactor : reactors) {
    options.tls_proxies = encrypted ? std::make_shared<TlsProxies>() : nullptr;
    made.push_back(std::make_unique<TcpTransport>(static_cast<int>(made.size()), options, *reactor));
  }
  return made;
}

bool built_with_tls() try {
  const TlsProxies tls_proxies;
  return true;
} catch (const Error&) {
  return false;
}

}  // namespace

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds = [] {
    std::vector<Kind> made = {
        {"inproc", [](auto reactors, auto) { return make_inproc(reactors); }},
        {"shm", [](auto reactors, auto) { return make_shm(reactors, SingleCopy::never); }},
        {"shm, lent", [](auto reactors, auto) { return make_shm(reactors, SingleCopy::always); }},
        {"tcp", [](auto reactors, auto timeout) { return make_tcp(reactors, false, timeout); }},
        {"tcp, striped", [](auto reactors, auto timeout) { return make_tcp(reactors, false, timeout, 3); }},
    };
    if (built_with_tls()) {
      made.push_back({"tcp, encrypted", [](auto reactors, auto timeout) { return make_tcp(reactors, true, timeout); }});
      made.push_back({"tcp, encrypted, striped",
                      [](auto reactors, auto timeout) { return make_tcp(reactors, true, timeout, 2); }});
    }
    return made;
  }();
  return kinds;
}

void for_each_kind(const std::function<void(const Kind&)>& body) {
  for (const Kind& kind : all_kinds()) {
    INFO("transport: ", std::string(kind.name));
    body(kind);
  }
}

std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  const auto next = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return state ^ state >> 32;  // the low bits of such a generator repeat too soon
  };
  std::size_t at = 0;
  for (std::uint64_t word; at + sizeof word <= size; at += sizeof word) {
    word = next();
    std::memcpy(bytes.data() + at, &word, sizeof word);  // of a fixed size it is a store, which no sanitizer intercepts
  }
  const std::uint64_t last = next();
  if (at < size) std::memcpy(bytes.data() + at, &last, size - at);
  return bytes;
}

// ---- Recorder --------------------------------------------------------------------------------------------------

Acceptance Recorder::arrived(Link& from, const Frame& frame) noexcept {
  const auto kind = decide ? decide(from, frame) : Acceptance::Kind::memory;
  if (kind == Acceptance::Kind::park) {
    parked.push_back(&from);
    return {};
  }
  if (current_.contains(&from)) broken = "a message began inside another";
  Message& message = current_[&from];
  message = {from.peer(), from.channel(), frame, {}, false};
  if (kind == Acceptance::Kind::views) return {.kind = kind};
  message.bytes.resize(frame.length);
  message.is_in_place = !place.empty();
  return {.kind = kind, .memory = message.is_in_place ? place.first(frame.length) : message.bytes};
}

void Recorder::view(Link& from, std::span<const std::byte> piece) noexcept {
  Message& message = current_.at(&from);
  const std::size_t after = message.bytes.size() + piece.size();
  if (reinterpret_cast<std::uintptr_t>(piece.data()) % 16 != 0) broken = "a view does not begin on a 16-byte boundary";
  if (piece.empty()) broken = "an empty view";
  if (after > message.frame.length) broken = "more was shown than the message has";
  if (after < message.frame.length && piece.size() % 64 != 0)
    broken = fmt::format("a view of {} bytes that is not the last", piece.size());
  message.bytes.insert(message.bytes.end(), piece.begin(), piece.end());
}

void Recorder::received(Link& from) noexcept {
  const auto found = current_.find(&from);
  Message& message = found->second;
  if (message.bytes.size() != message.frame.length) broken = "a message was complete too early";
  if (message.is_in_place) std::copy_n(place.begin(), message.bytes.size(), message.bytes.begin());
  messages.push_back(std::move(found->second));
  current_.erase(found);
  if (on_received) on_received(from);
}

void Recorder::failed(Link& link, const Error& reason) noexcept {
  failures.push_back(
      {&link, link.peer(), link.channel(), reason.code(), reason.rank(), reason.operation(), reason.what()});
}

// ---- Node ------------------------------------------------------------------------------------------------------

bool Node::step() {
  const bool ran = reactor.poll();
  return transport->progress() || ran;
}

bool Node::sleep_until(const std::function<bool()>& done) {
  const auto deadline = Clock::now() + hang_limit;
  while (!done()) {
    if (transport->progress()) continue;
    if (Clock::now() >= deadline) return false;
    sleep_until_woken(reactor, deadline, [this] { return transport->prepare_sleep(); });
    transport->awake();
  }
  return true;
}

bool Node::send(Link& link, std::size_t size, std::uint64_t seed, Token token, FrameKind kind) {
  payloads.push_back(std::make_unique<std::vector<std::byte>>(pattern(size, seed)));
  Frame frame{.kind = kind, .length = size};
  if (kind == FrameKind::data) frame.operation = static_cast<std::uint32_t>(seed);
  const bool at_once = link.send(frame, *payloads.back(), token);
  if (!at_once) ++queued;
  return at_once;
}

bool Node::send(int peer, Channel channel, std::size_t size, std::uint64_t seed, Token token) {
  return send(transport->open(peer, channel), size, seed, token);
}

// ---- Mesh ------------------------------------------------------------------------------------------------------

Mesh::Mesh(const Kind& kind, int ranks, std::chrono::seconds connect_timeout) {
  std::vector<Reactor*> reactors;
  for (int rank = 0; rank < ranks; ++rank) {
    nodes_.push_back(std::make_unique<Node>());
    nodes_.back()->rank = rank;
    reactors.push_back(&nodes_.back()->reactor);
  }
  auto transports = kind.make(reactors, connect_timeout);
  std::vector<std::string> addresses;
  for (const auto& transport : transports) addresses.push_back(transport->address());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i]->transport = std::move(transports[i]);
    nodes_[i]->transport->set_peers(addresses);
    nodes_[i]->transport->set_sink(nodes_[i]->recorder);
  }
}

Mesh::~Mesh() {
  for (auto& node : nodes_) node->transport.reset();
}

void Mesh::kill(int rank) { (*this)[rank].transport.reset(); }

bool Mesh::step() {
  bool moved = false;
  for (auto& node : nodes_)
    if (node->transport) moved |= node->step();
  return moved;
}

bool Mesh::run_until(const std::function<bool()>& done) {
  const auto deadline = Clock::now() + hang_limit;
  while (!done()) {
    if (Clock::now() >= deadline) return false;
    step();
  }
  return true;
}

void Mesh::settle() {
  const auto quiet = std::chrono::milliseconds(20);
  for (auto last = Clock::now(); Clock::now() < last + quiet;)
    if (step()) last = Clock::now();
}

void Mesh::in_threads(const std::function<void(Node&)>& body) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> exceptions(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        body(*nodes_[i]);
      } catch (...) {
        exceptions[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& exception : exceptions)
    if (exception) std::rethrow_exception(exception);
}

}  // namespace tutti::transport::testing
