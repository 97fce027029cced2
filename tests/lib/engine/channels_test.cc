// What becomes of messages for which this rank has no communicator, or not yet.

#include "lib/engine/channels.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <span>

namespace tutti::detail {
namespace {

using transport::Acceptance;
using transport::Frame;
using transport::FrameKind;

constexpr transport::Channel channel = 43;
constexpr int member = 1, outsider = 2;

class PlayedLink final : public transport::Link {
 public:
  using Link::Link;
  bool send(const Frame&, std::span<const std::byte>, transport::Token) noexcept override { return false; }
  void resume() noexcept override { ++resumed; }

  int resumed = 0;
};

class Members final : public ChannelUser {
 public:
  bool knows(int rank) const noexcept override { return rank == member; }
  Acceptance arrived(transport::Link&, const Frame&) noexcept override { return {Acceptance::Kind::memory}; }
  void view(transport::Link&, std::span<const std::byte>) noexcept override {}
  void received(transport::Link&) noexcept override { ++messages; }
  void sent(transport::Link&, transport::Token) noexcept override {}
  void failed(transport::Link&, const Error&) noexcept override {}

  int messages = 0;
};

TEST_CASE("a message waits for the communicator that this rank is about to make") {
  Channels channels;
  transport::Sink& sink = channels;
  PlayedLink link{member, channel};
  Members members;
  CHECK(sink.arrived(link, {.kind = FrameKind::eager}).kind == Acceptance::Kind::park);
  channels.attach(channel, members);
  CHECK(link.resumed == 1);
  CHECK(sink.arrived(link, {.kind = FrameKind::eager}).kind == Acceptance::Kind::memory);
  sink.received(link);
  CHECK(members.messages == 1);
}

TEST_CASE("credit for a communicator that was closed long ago is taken, so that its link can end") {
  Channels channels;
  transport::Sink& sink = channels;
  PlayedLink link{member, channel};
  Members members;
  CHECK(sink.arrived(link, {.kind = FrameKind::credit}).kind == Acceptance::Kind::memory);
  sink.received(link);
  channels.attach(channel, members);
  CHECK(link.resumed == 0);
  CHECK(members.messages == 0);
}

TEST_CASE("the link of a rank that is no member may be destroyed before its channel is closed") {
  Channels channels;
  transport::Sink& sink = channels;
  Members members;
  channels.attach(channel, members);
  auto link = std::make_unique<PlayedLink>(outsider, channel);
  CHECK(sink.arrived(*link, {.kind = FrameKind::eager}).kind == Acceptance::Kind::park);
  channels.detach(channel);
  channels.attach(channel, members);
  CHECK(link->resumed == 0);  // it waits for no communicator
  link.reset();
  channels.detach(channel);
}

}  // namespace
}  // namespace tutti::detail
