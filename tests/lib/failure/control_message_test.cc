#include "lib/failure/control_message.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

namespace tutti::detail {
namespace {

using Kind = ControlMessage::Kind;

std::optional<ControlMessage> decoded(const std::string& bytes) {
  return decode_control_message(std::span{bytes}.subspan(control_message_head));
}

/// A message in which every field of `kind` differs from its default.
ControlMessage full(Kind kind) {
  ControlMessage message{.kind = kind};
  const Failure failure{1ULL << 40, ErrorCode::timeout, 3, 77, "who, what, how far"};
  const Report report{1ULL << 41, 78, true, true, 2, 5, "all_reduce #78", {0, 2, 5}, {9, 10}, false};
  Status status;
  status.presence = Status::Presence::closed, status.started = 7, status.finished = 6, status.call = "call";
  status.wait = Status::Wait::send, status.asynchronous = true, status.doing = "doing", status.unclaimed = "unclaimed";
  status.awaited = {4, 5}, status.unread = {5}, status.steps_done = 3, status.steps = 8;
  status.in_rounds = status.on_stream = true;
  status.sends = {1, 2}, status.receives = {3, 4}, status.other_group = 12, status.other_members = {1, 6};
  switch (kind) {
    case Kind::beat:
    case Kind::ready:
      break;
    case Kind::leave:
    case Kind::departed:
      message.ranks = {1, 4};
      break;
    case Kind::failure:
      message.failure = failure;
      break;
    case Kind::suspicion:
      message.failure = failure;
      message.report = report;
      break;
    case Kind::report:
    case Kind::reunion:
      message.report = report;
      break;
    case Kind::question:
      message.report = report, message.number = 5;
      break;
    case Kind::answer:
      message.status = status, message.number = 6;
      break;
    case Kind::decision:
      message.ranks = {0, 3}, message.number = 7;
      break;
  }
  return message;
}

TEST_CASE("a message of each kind comes back as it was, and any part of it is no message") {
  for (int number = 0; number <= static_cast<int>(Kind::departed); ++number) {
    CAPTURE(number);
    const ControlMessage message = full(static_cast<Kind>(number));
    const std::string bytes = encode(message);
    const auto back = decoded(bytes);
    REQUIRE(back.has_value());
    CHECK(back->kind == message.kind);
    CHECK(encode(*back) == bytes);
    CHECK(back->ranks == message.ranks);
    CHECK(back->number == message.number);
    CHECK(back->failure == message.failure);
    CHECK(back->report == message.report);
    CHECK(back->status == message.status);
    for (std::size_t size = control_message_head; size < bytes.size(); ++size)
      CHECK_FALSE(decoded(bytes.substr(0, size)).has_value());
    CHECK_FALSE(decoded(bytes + "x").has_value());
  }
}

TEST_CASE("long texts and lists are cut, and a report says that its groups were") {
  ControlMessage failed{.kind = Kind::failure};
  failed.failure.text.assign(10'000, 'x');
  CHECK(decoded(encode(failed))->failure.text == std::string(4096, 'x'));
  ControlMessage report{.kind = Kind::report};
  report.report.groups.resize(most_listed);
  CHECK(decoded(encode(report))->report.lists_all);
  report.report.groups.resize(most_listed + 1);
  const auto cut = decoded(encode(report));
  CHECK(cut->report.groups.size() == most_listed);
  CHECK_FALSE(cut->report.lists_all);
}

TEST_CASE("an unknown kind is no message") {
  std::string bytes = encode({.kind = Kind::beat});
  bytes[control_message_head] = static_cast<char>(static_cast<int>(Kind::departed) + 1);
  CHECK_FALSE(decoded(bytes).has_value());
}

}  // namespace
}  // namespace tutti::detail
