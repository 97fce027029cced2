#include "transport/shm/probe.h"

#include <fmt/core.h>

#include <cstddef>
#include <span>
#include <vector>

#include "transport/slot_ring.h"

namespace tutti::transport {
namespace {

/// Needs every slot more than once, and the back-pressure between.
constexpr std::size_t probe_bytes = 2 * slot_count * slot_bytes + 3;

/// Different for every rank and every page, so that no wrong memory passes for the right one.
std::vector<std::byte> pattern_of(int rank) {
  std::vector<std::byte> bytes(probe_bytes);
  std::uint32_t state = 0x9e3779b9U * (static_cast<std::uint32_t>(rank) + 1);
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

/// Takes one message from `previous` and remembers the first trouble.
class ProbeSink final : public Sink {
 public:
  ProbeSink(int previous, std::span<std::byte> memory) : previous_(previous), memory_(memory) {}

  Acceptance arrived(Link& from, const Frame& frame) noexcept override {
    if (from.channel() != probe_channel) return {};
    if (from.peer() != previous_ || frame.length != memory_.size() || complete) {
      trouble = fmt::format("rank {} sent {} bytes that nobody expected", from.peer(), frame.length);
      return {};
    }
    return {Acceptance::Kind::memory, memory_};
  }
  void view(Link&, std::span<const std::byte>) noexcept override {}
  void received(Link&) noexcept override { complete = true; }
  void sent(Link&, Token) noexcept override { gone = true; }
  void failed(Link& link, const Error& reason) noexcept override {
    if (link.channel() == probe_channel && trouble.empty()) trouble = reason.what();
  }

  bool complete = false;
  bool gone = false;
  std::string trouble;

 private:
  int previous_;
  std::span<std::byte> memory_;
};

void wait_briefly(Transport& transport, Reactor& reactor, Clock::time_point deadline) {
  if (transport.prepare_sleep()) {
    reactor.sleep(deadline);
  } else {
    reactor.poll();
  }
  transport.awake();
}

}  // namespace

std::optional<std::string> probe_transfer(Transport& transport, Reactor& reactor, int self, int next, int previous,
                                          Clock::time_point deadline) {
  const std::vector<std::byte> mine = pattern_of(self);
  const std::vector<std::byte> expected = pattern_of(previous);
  std::vector<std::byte> memory(probe_bytes);
  ProbeSink sink(previous, memory);
  transport.set_sink(sink);
  sink.gone = transport.open(next, probe_channel).send({.length = mine.size()}, mine, 0);
  while (!(sink.complete && sink.gone) && sink.trouble.empty() && Clock::now() < deadline)
    if (!transport.progress()) wait_briefly(transport, reactor, deadline);
  transport.close_channel(probe_channel, deadline);

  if (!sink.trouble.empty()) return sink.trouble;
  if (!sink.complete) return fmt::format("nothing came from rank {}", previous);
  if (memory != expected) return fmt::format("what came from rank {} is not what it sent", previous);
  if (!sink.gone) return fmt::format("rank {} did not take what was sent to it", next);
  return std::nullopt;
}

}  // namespace tutti::transport
