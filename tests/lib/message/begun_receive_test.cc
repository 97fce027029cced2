// Receives without the engine that have a part of their message when the engine takes them over.

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/internals.h"
#include "tests/lib/message/two_ranks.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t length = EagerCredit::longest;
constexpr int interrupted_tag = 5;

/// Rank 1 sends, rank 0 receives.
struct Interrupted {
  TwoRanks ranks;
  Communicator receiver = Internals::make<Communicator>(ranks.first);
  Communicator sender = Internals::make<Communicator>(ranks.second);
  std::vector<std::byte> token = std::vector<std::byte>(8), data, memory = std::vector<std::byte>(length);

  Interrupted() {
    sender.send(token, 0, {.tag = interrupted_tag});
    receiver.recv(token, 1, {.tag = interrupted_tag});
  }

  /// Starts a message that leaves the last piece behind, since a ring holds as many pieces, and one slot has something
  /// else. Nothing moves at rank 1 until somebody waits for the send.
  Work send_all_but_the_last_piece(std::size_t seed) {
    data = std::vector<std::byte>(length, static_cast<std::byte>(seed));
    for (std::size_t i = 0; i < length; i += 1000) data[i] = static_cast<std::byte>(i / 1000);
    sender.send(token, 0, {.tag = interrupted_tag});
    Messages& messages = ranks.second->messages;
    Message& message = messages.make({.kind = MessageCall::Kind::send,
                                      .bytes = data,
                                      .count = length,
                                      .type = DataType::u8,
                                      .peer = 0,
                                      .tag = interrupted_tag,
                                      .timeout = 20s});
    Work work = Internals::make<Work>(static_cast<Pending*>(&message));
    ranks.second->group.context().engine->submit(message);
    CHECK_FALSE(work.done());
    CHECK(message.stage == Message::Stage::begun);  // and has not asked, for want of credit
    receiver.recv(token, 1, {.tag = interrupted_tag});
    return work;
  }

  /// What the receive throws. It has begun before `meanwhile` runs.
  template <class Meanwhile>
  std::optional<Error> receive(Meanwhile&& meanwhile) {
    auto outcome = std::async(std::launch::async, [&]() -> std::optional<Error> {
      try {
        receiver.recv(memory, 1, {.tag = interrupted_tag, .timeout = 20s});
      } catch (const Error& error) {
        return error;
      }
      return std::nullopt;
    });
    // All of the message that can be there is there, so a receive that waits has taken it.
    bool waits = false;
    const auto until = Clock::now() + 50s;
    while (!waits && Clock::now() < until) {
      std::this_thread::yield();
      ranks.first->group.context().engine->exclusively([&] { waits = ranks.first->messages.busy(); });
    }
    CHECK(waits);
    meanwhile();
    return outcome.get();
  }
};

TEST_CASE("a receive that has begun gets the rest of its message, and returns the credit for it") {
  Interrupted ranks;
  for (std::size_t round = 0; round < 4 * EagerCredit::limit / length; ++round) {
    CAPTURE(round);
    Work sending = ranks.send_all_but_the_last_piece(round);
    const auto failure = ranks.receive([&] { sending.wait(); });
    if (failure) FAIL(std::string{failure->what()});
    CHECK(ranks.memory == ranks.data);
  }
}

TEST_CASE("a sender that does nothing but send finds the credit that has come, and need not ask") {
  for (const std::size_t size : {std::size_t{1000}, std::size_t{60'000}, length / 2}) {
    CAPTURE(size);
    Interrupted ranks;
    const std::vector<std::byte> data(size);
    std::vector<std::byte> memory(size);
    for (std::size_t sent = 0; sent < 3 * EagerCredit::limit; sent += size) {
      ranks.sender.send(data, 0, {.tag = interrupted_tag, .timeout = 5s});  // there is no receive
      ranks.receiver.recv(memory, 1, {.tag = interrupted_tag});
    }
  }
}

TEST_CASE("a receive that has begun fails if its sender aborts or is cut off, and names it") {
  for (const bool aborts : {true, false}) {
    CAPTURE(aborts);
    Interrupted ranks;
    const Work sending = ranks.send_all_but_the_last_piece(1);
    Engine& engine = *ranks.ranks.second->group.context().engine;
    const auto failure = ranks.receive([&] {
      engine.exclusively([&] {
        if (aborts)
          engine.abort_channel(TwoRanks::message_channel, Error{ErrorCode::timeout, "it took too long", 1, 7});
        if (!aborts) engine.cut();
      });
    });
    REQUIRE(failure);
    CHECK(failure->rank() == 1);
    const std::string_view text = failure->what();
    CHECK_MESSAGE(text.find("rank 1") != std::string_view::npos, text);
    CHECK_MESSAGE(text.find("recv of 262144 x u8") != std::string_view::npos, text);
    if (aborts) CHECK_MESSAGE(text.find("it took too long") != std::string_view::npos, text);
  }
}

}  // namespace
}  // namespace tutti::detail
