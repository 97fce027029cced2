#include "transport/hello.h"

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace tutti::transport;
using tutti::Error;
using tutti::ErrorCode;
using tutti::Hello;

JobToken token_of(int first) {
  JobToken token;
  for (std::size_t i = 0; i < token.size(); ++i) token[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return token;
}

Error through_the_wire(const Error& reason) {
  const std::vector<std::byte> message = abort_message(reason);
  const auto frame = decode(std::span(message).first<frame_size>());
  REQUIRE(frame);
  CHECK(frame->kind == FrameKind::abort);
  CHECK(frame->length == message.size() - frame_size);
  return told_by(*frame, std::span(message).subspan(frame_size));
}

}  // namespace

TEST_CASE("a hello with the job's token is understood") {
  const Hello hello{.from = 3, .to = 70000, .channel = 0xfedcba9876543210};
  CHECK(decode_hello(encode(hello, token_of(1)), token_of(1)) == hello);
}

TEST_CASE("a hello that differs from ours in any byte before the ranks is refused") {
  const HelloBytes good = encode(Hello{.from = 0, .to = 1, .channel = 7}, token_of(1));
  CHECK_FALSE(decode_hello(good, token_of(2)));
  for (std::size_t position = 0; position < 24; ++position) {
    CAPTURE(position);
    HelloBytes bad = good;
    bad[position] ^= std::byte{1};
    CHECK_FALSE(decode_hello(bad, token_of(1)));
  }
}

TEST_CASE("an abort tells the peer code, reason, culprit and operation") {
  const Error told = through_the_wire(Error(ErrorCode::timeout, "rank 2 did not answer for 30 s", 2, 41));
  CHECK(told.code() == ErrorCode::timeout);
  CHECK(std::string(told.what()) == "rank 2 did not answer for 30 s");
  CHECK(told.rank() == 2);
  CHECK(told.operation() == 41);
}

TEST_CASE("an abort without a culprit or a text arrives as such") {
  const Error told = through_the_wire(Error(ErrorCode::aborted, ""));
  CHECK(told.rank() == -1);
  CHECK(std::string(told.what()).empty());
}

TEST_CASE("a long reason is cut to what a reader must keep room for") {
  const Error told = through_the_wire(Error(ErrorCode::system, std::string(100000, 'x'), 1));
  CHECK(std::string(told.what()) == std::string(max_reason, 'x'));
}

TEST_CASE("an abort with a code from the future counts as a lost peer") {
  const Frame frame{.kind = FrameKind::abort, .error = 200, .culprit = 5};
  CHECK(told_by(frame, {}).code() == ErrorCode::peer_lost);
}
