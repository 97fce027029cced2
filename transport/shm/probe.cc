#include "transport/shm/probe.h"

#include <fmt/core.h>

#include <cstddef>
#include <span>
#include <vector>

#include "transport/memory/slot_ring.h"
#include "transport/sleep.h"

namespace tutti::transport {
namespace {

/// Every slot is used more than once, so that back-pressure is tested, too. A message is just long enough to lie in its
/// slot and not beside its flag, since touching all of a ring's memory would cost time at every start.
constexpr std::size_t messages = 2 * slot_count + 1;
constexpr std::size_t message_bytes = short_bytes + 64;

/// Different for every rank, message and byte, so that data of other memory are recognised.
std::vector<std::byte> pattern_of(int rank) {
  std::vector<std::byte> bytes(messages * message_bytes);
  std::uint32_t state = 0x9e3779b9U * (static_cast<std::uint32_t>(rank) + 1);
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

/// Takes the messages from `previous` and keeps the first failure.
class ProbeSink final : public Sink {
 public:
  ProbeSink(int previous, std::span<std::byte> memory) : previous_(previous), memory_(memory) {}

  Acceptance arrived(Link& from, const Frame& frame) noexcept override {
    if (from.channel() != probe_channel) return {};
    if (from.peer() != previous_ || frame.length != message_bytes || received_ == messages) {
      trouble = fmt::format("rank {} sent {} unexpected bytes", from.peer(), frame.length);
      return {};
    }
    return {Acceptance::Kind::memory, memory_.subspan(received_ * message_bytes, message_bytes)};
  }
  void view(Link&, std::span<const std::byte>) noexcept override {}
  void received(Link&) noexcept override { ++received_; }
  void sent(Link&, Token) noexcept override { ++gone; }
  void failed(Link& link, const Error& reason) noexcept override {
    if (link.channel() == probe_channel && trouble.empty()) trouble = reason.what();
  }

  bool complete() const { return received_ == messages; }

  std::size_t gone = 0;
  std::string trouble;

 private:
  int previous_;
  std::span<std::byte> memory_;
  std::size_t received_ = 0;
};

void wait_briefly(Transport& transport, Reactor& reactor, Clock::time_point deadline) {
  sleep_until_woken(reactor, deadline, [&transport] { return transport.prepare_sleep(); });
  transport.awake();
}

}  // namespace

std::optional<std::string> probe_transfer(Transport& transport, Reactor& reactor, int self, int next, int previous,
                                          Clock::time_point deadline) {
  const std::vector<std::byte> mine = pattern_of(self);
  const std::vector<std::byte> expected = pattern_of(previous);
  std::vector<std::byte> memory(mine.size());
  ProbeSink sink(previous, memory);
  transport.set_sink(sink);
  Link& link = transport.open(next, probe_channel);
  for (std::size_t i = 0; i < messages; ++i)
    if (link.send({.length = message_bytes}, std::span{mine}.subspan(i * message_bytes, message_bytes), i)) ++sink.gone;
  while (!(sink.complete() && sink.gone == messages) && sink.trouble.empty() && Clock::now() < deadline)
    if (!transport.progress()) wait_briefly(transport, reactor, deadline);
  transport.close_channel(probe_channel, deadline);

  if (!sink.trouble.empty()) return sink.trouble;
  if (!sink.complete()) return fmt::format("nothing came from rank {}", previous);
  if (memory != expected) return fmt::format("the data from rank {} differ from what it sent", previous);
  if (sink.gone < messages) return fmt::format("rank {} did not take what was sent to it", next);
  return std::nullopt;
}

}  // namespace tutti::transport
