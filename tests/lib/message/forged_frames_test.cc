// What a rank makes of frames that no rank of ours sends.

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/internals.h"
#include "lib/message/messages.h"
#include "tests/lib/message/two_ranks.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using transport::Frame;
using transport::FrameKind;

constexpr auto f32 = static_cast<std::uint8_t>(DataType::f32);

/// What rank 0 fails with after rank 1 has done `mischief`; it has a receive waiting for tag 5 meanwhile.
std::optional<Error> failure_after(const std::function<void(Group&)>& mischief) {
  const TwoRanks ranks;
  Group& other = ranks.second->group;
  other.context().engine->exclusively([&] { mischief(other); });
  std::array<std::byte, 8> bytes{};
  auto communicator = Internals::make<Communicator>(ranks.first);
  try {
    communicator.recv(bytes, 1, {.tag = 5, .timeout = 10s});
  } catch (const Error& error) {
    return error;
  }
  return {};
}

TEST_CASE("a frame of a message that says what cannot be fails the communicator and names its sender") {
  struct Forged {
    const char* complaint;
    Frame frame;
    std::size_t payload = 0;
  };
  const Forged cases[] = {
      {"a negative tag", {.kind = FrameKind::eager, .tag = -1}, 8},
      {"a negative tag", {.kind = FrameKind::eager, .tag = -6}, 8},
      {"a negative tag", {.kind = FrameKind::request, .tag = -2, .elements = 8}, 8},
      {"an unknown element type", {.kind = FrameKind::eager, .data_type = 200, .tag = 5}, 8},
      {"an eager message above the limit", {.kind = FrameKind::eager, .tag = 5}, EagerCredit::longest + 8},
      {"an eager message of another length", {.kind = FrameKind::eager, .tag = 5, .elements = 8}, 3},
      {"an eager message of another length", {.kind = FrameKind::eager, .data_type = f32, .tag = 5}, 3},
      {"an eager message of another length",
       {.kind = FrameKind::eager, .data_type = f32, .tag = 5, .elements = (std::uint64_t{1} << 62) + 2},
       8},
      {"a request for more bytes than an address space has",
       {.kind = FrameKind::request, .tag = 5, .elements = ~std::uint64_t{0}}},
      {"a request with more than the head of its message", {.kind = FrameKind::request, .tag = 5, .elements = 8}, 16},
      {"a grant without a request", {.kind = FrameKind::grant, .sender_slot = 3}},
      {"a payload without a grant", {.kind = FrameKind::bulk, .receiver_slot = 3}, 8},
      {"a payload without a grant", {.kind = FrameKind::bulk, .receiver_slot = 3 | std::uint32_t{1} << 31}, 8},
      {"a credit with a payload", {.kind = FrameKind::credit, .credit = 8}, 8},
      {"a frame that is not for messages", {.kind = FrameKind::data, .operation = 3}, 8},
  };
  static const std::array<std::byte, EagerCredit::longest + 64> zeros{};
  for (const Forged& forged : cases) {
    CAPTURE(forged.complaint);
    CAPTURE(forged.payload);
    const auto failure = failure_after([&](Group& group) {
      Frame frame = forged.frame;
      frame.length = forged.payload;
      group.open(0, TwoRanks::message_channel)
          .send(frame, std::span{zeros}.first(forged.payload), ~transport::Token{0});
    });
    REQUIRE(failure);
    CHECK(failure->code() == ErrorCode::mismatch);
    CHECK(failure->rank() == 1);
    CHECK(std::string_view{failure->what()}.find(forged.complaint) != std::string_view::npos);
  }
}

TEST_CASE("a payload that is not all of what was granted is no message") {
  constexpr std::size_t whole = 8;  // of the message, and of the receive that waits for it
  static const std::array<std::byte, whole> zeros{};
  for (const std::size_t head : {std::size_t{0}, std::size_t{4}})
    for (std::size_t rest = 0; rest <= whole - head; ++rest) {
      CAPTURE(head);
      CAPTURE(rest);
      const auto failure = failure_after([&](Group& group) {
        transport::Link& link = group.open(0, TwoRanks::message_channel);
        const auto send = [&](Frame frame, std::size_t bytes) {
          frame.length = bytes;
          frame.data_type = static_cast<std::uint8_t>(data_type_of<std::byte>);
          link.send(frame, std::span{zeros}.first(bytes), ~transport::Token{0});
        };
        send({.kind = FrameKind::request, .tag = 5, .elements = whole, .sender_slot = 3}, head);
        send({.kind = FrameKind::bulk, .tag = 5, .elements = whole}, rest);  // for the only receive there
      });
      CHECK(failure.has_value() == (rest < whole - head));
      if (failure) CHECK(std::string_view{failure->what()}.find("a payload without a grant") != std::string_view::npos);
    }
}

TEST_CASE("an abort that blames a rank that does not exist blames nobody") {
  for (const int number : {2, 1 << 30, -2, -(1 << 30)}) {
    CAPTURE(number);
    const auto failure = failure_after([=](Group& group) {
      group.open(0, TwoRanks::message_channel);
      group.context().engine->abort_channel(TwoRanks::message_channel, Error{ErrorCode::peer_lost, "why", number, 7});
    });
    REQUIRE(failure);
    CHECK(failure->code() == ErrorCode::peer_lost);
    CHECK(failure->rank() == -1);
    CHECK(std::string_view{failure->what()}.ends_with(": why"));
  }
}

}  // namespace
}  // namespace tutti::detail
