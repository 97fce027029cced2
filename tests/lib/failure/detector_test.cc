// The failure detector's pure parts: what it diagnoses, and its messages.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lib/engine/wait_escalation.h"
#include "lib/failure/control_message.h"
#include "lib/failure/diagnosis.h"
#include "tests/support/documented.h"

namespace tutti::detail {
namespace {

using Presence = Status::Presence;

Report report_of(std::uint64_t operation, bool overdue) {
  return {.group = 9, .operation = operation, .overdue = overdue, .reporter = 0, .call = "call", .members = {0, 1, 2}};
}

RankView view(int rank, Status status) { return {.rank = rank, .name = "r" + std::to_string(rank), .status = status}; }

Status in_call(const std::string& call, std::vector<int> awaited = {}) {
  Status status;
  status.wait = Status::Wait::collective;
  status.presence = Presence::here;
  status.started = 5;
  status.finished = 4;
  status.call = call;
  status.doing = call;
  status.awaited = std::move(awaited);
  status.steps = 10;
  return status;
}

TEST_CASE("the call that most ranks made is the right one") {
  const std::vector<RankView> all = {view(0, in_call("a")), view(1, in_call("b")), view(2, in_call("a"))};
  const auto failure = diagnose(report_of(5, false), all);
  REQUIRE(failure);
  CHECK(failure->code == ErrorCode::mismatch);
  CHECK(failure->culprit == 1);
  CHECK(failure->text == "r1 called b while r0 called a");
}

TEST_CASE("calls that differ in algorithm or memory alone are quoted with what to do") {
  const auto is_told = [](const std::string& one, const std::string& other, std::string_view remedy) {
    const auto failure = diagnose(report_of(5, false), std::vector{view(0, in_call(one)), view(1, in_call(other))});
    return failure && failure->text == "r1 called " + other + " while r0 called " + one + std::string{remedy};
  };
  CHECK(is_told("a #1 (8 x i32) with ring", "a #1 (8 x i32) with tree:2", other_algorithm));
  CHECK(is_told("a #1 (8 x i32) with ring", "a #1 (9 x i32) with ring", ""));
  CHECK(is_told("a #1 with ring", "a #1 with ring in allocated memory", only_one_allocated));
  CHECK(is_told("a #1 with ring", "a #1 with ring on streams", other_memory));
  CHECK(is_told("a #1 with ring on streams", "a #1 with direct as tasks on streams", other_tasks));
}

TEST_CASE("as long as there is time, nobody is blamed for being late") {
  Status absent = in_call("");
  absent.started = 4;
  const std::vector<RankView> all = {view(0, in_call("a", {1})), view(1, absent), {.rank = 2, .name = "r2"}};
  CHECK(!diagnose(report_of(5, false), all));
}

TEST_CASE("at the deadline the silent come first, then the absent, then the slow") {
  Status absent = in_call("");
  absent.started = 4;
  absent.wait = Status::Wait::collective;
  absent.doing = "somewhere";
  RankView silent{.rank = 2, .name = "r2", .silent_seconds = 3};
  auto failure =
      diagnose(report_of(5, true), std::vector<RankView>{view(0, in_call("a", {1})), view(1, absent), silent});
  REQUIRE(failure);
  CHECK(failure->culprit == 2);
  CHECK(failure->text.find("last heartbeat is 3.0 s old") != std::string::npos);

  failure = diagnose(report_of(5, true),
                     std::vector<RankView>{view(0, in_call("a", {1})), view(1, absent), view(2, in_call("a"))});
  REQUIRE(failure);
  CHECK(failure->culprit == 1);
  CHECK(failure->text == "r1 is alive but has not called call: it waits in somewhere");

  Status behind = in_call("a");
  behind.steps_done = 2;
  Status ahead = in_call("a", {1, 2});
  ahead.steps_done = 7;
  failure = diagnose(report_of(5, true), std::vector<RankView>{view(0, ahead), view(1, behind), view(2, ahead)});
  REQUIRE(failure);
  CHECK(failure->culprit == 1);
  CHECK(failure->text.find("with 2 of 10 steps done") != std::string::npos);
  behind.in_rounds = true;
  failure = diagnose(report_of(5, true), std::vector<RankView>{view(0, ahead), view(1, behind), view(2, ahead)});
  REQUIRE(failure);
  CHECK(failure->text.find("r1 is the furthest behind, in round 3 of 10:") != std::string::npos);
  behind.in_rounds = false;
  behind.on_stream = true;
  failure = diagnose(report_of(5, true), std::vector<RankView>{view(0, ahead), view(1, behind), view(2, ahead)});
  REQUIRE(failure);
  CHECK(failure->text.find("with 2 of 10 steps done: its stream has other work") != std::string::npos);
}

TEST_CASE("a call that all have ended when they are asked was late, and nobody's fault") {
  Status done = in_call("a");
  done.finished = 5;
  const std::vector<RankView> all = {view(0, done), view(1, done), view(2, done)};
  auto failure = diagnose(report_of(5, true), all);
  REQUIRE(failure);
  CHECK(failure->culprit == -1);
  CHECK(failure->text.find("late, not stuck") != std::string::npos);
  done.wait = Status::Wait::nothing;
  failure = diagnose(report_of(0, true), std::vector<RankView>{view(0, done), view(1, done), view(2, done)});
  REQUIRE(failure);
  CHECK(failure->text.find("late, not stuck") != std::string::npos);
}

TEST_CASE("a rank that waits for one that left is told at once, but only if nothing moves") {
  Status closed;
  closed.presence = Presence::closed;
  std::vector<RankView> all = {view(0, in_call("a", {1})), view(1, closed), view(2, in_call("a"))};
  Report report = report_of(5, false);
  CHECK(!diagnose(report, all));
  report.stalled = true;
  CHECK(!diagnose(report, all));  // what it said before it left may be on its way
  all[0].status->unread = {1};
  report.overdue = true;
  CHECK(diagnose(report, all));
  report.overdue = false;
  all[1].known_gone = true;
  CHECK(!diagnose(report, all));  // it still is
  all[2].status->awaited = {1};
  CHECK(diagnose(report, all));  // not to that one
  all[2].status->awaited.clear();
  all[0].status->unread.clear();
  const auto failure = diagnose(report, all);
  REQUIRE(failure);
  CHECK(failure->code == ErrorCode::peer_lost);
  CHECK(failure->culprit == 1);
}

TEST_CASE("a circle is found wherever one enters it") {
  const auto sender = [](int to) {
    Status status;
    status.presence = Presence::here;
    status.wait = Status::Wait::send;
    status.doing = "send to " + std::to_string(to);
    status.awaited = {to};
    return status;
  };
  // Rank 0 waits for the circle of 1 and 2.
  const auto failure =
      diagnose(report_of(0, true), std::vector<RankView>{view(0, sender(1)), view(1, sender(2)), view(2, sender(1))});
  REQUIRE(failure);
  CHECK(failure->culprit == 1);
  CHECK(failure->text.find("r1 waits in send to 2; r2 waits in send to 1;") != std::string::npos);
  CHECK(failure->text.find("r0") == std::string::npos);
}

TEST_CASE("a circle within one collective is not one of sends and receives") {
  std::vector<RankView> all;
  for (int rank = 0; rank < 3; ++rank) all.push_back(view(rank, in_call("a", {(rank + 2) % 3})));
  Report report = report_of(5, true);
  auto failure = diagnose(report, all);
  REQUIRE(failure);
  CHECK(failure->text.find("circle") == std::string::npos);  // data has moved of late
  report.stalled = true;
  failure = diagnose(report, all);
  REQUIRE(failure);
  CHECK(failure->text.find("wait for each other in a circle: r0, r2, r1.") != std::string::npos);
  CHECK(failure->text.find("tutti plan --check") != std::string::npos);
  CHECK(failure->text.find("isend") == std::string::npos);
}

TEST_CASE("a rank that waits for a rank that waits for another is told of that one") {
  Status receives;
  receives.presence = Presence::here;
  receives.wait = Status::Wait::receive;
  receives.doing = "recv from 2";
  receives.awaited = {2};
  Status first = receives;
  first.doing = "recv from 1";
  first.awaited = {1};
  Status busy;
  busy.presence = Presence::here;
  Report report = report_of(0, true);
  report.peer = 1;
  const auto failure = diagnose(report, std::vector<RankView>{view(0, first), view(1, receives), view(2, busy)});
  REQUIRE(failure);
  CHECK(failure->culprit == 2);
  CHECK(failure->text == "r2 is alive but has not made the call that matches recv from 2: it is in no call of tutti");
}

TEST_CASE("a receive from any rank is told what all ranks do") {
  Status any;
  any.presence = Presence::here;
  any.wait = Status::Wait::receive;
  Status busy;
  busy.presence = Presence::here;
  const auto failure = diagnose(report_of(0, true), std::vector<RankView>{view(0, any), view(1, busy)});
  REQUIRE(failure);
  CHECK(failure->culprit == -1);
  CHECK(failure->text == "no rank has made the call that matches call: r1 is in no call of tutti");
}

TEST_CASE("counts of a _v call are compared: by vote where all give the same, else pair by pair") {
  const auto with = [](std::vector<std::uint64_t> sends, std::vector<std::uint64_t> receives) {
    Status status = in_call("a");
    status.sends = std::move(sends);
    status.receives = std::move(receives);
    return status;
  };
  const Report early = report_of(5, false);
  auto failure = diagnose(early, std::vector<RankView>{view(0, with({1, 2, 4}, {})), view(1, with({1, 2, 3}, {})),
                                                       view(2, with({1, 2, 3}, {}))});
  REQUIRE(failure);
  CHECK(failure->code == ErrorCode::mismatch);
  CHECK(failure->culprit == 0);
  CHECK(failure->text.find("r0 called a with the counts {1, 2, 4} while r1 called it with {1, 2, 3}") == 0);

  // A rank that has forgotten its counts does not report them.
  failure = diagnose(early, std::vector<RankView>{view(0, in_call("a")), view(1, with({1, 2, 0}, {1, 2, 3})),
                                                  view(2, with({4, 5, 6}, {7, 3, 6}))});
  REQUIRE(failure);
  CHECK(failure->culprit == 1);
  CHECK(failure->text ==
        "r1 gave 0 as send_counts[2] in a, but r2 gave 3 as recv_counts[1]: 0 sent, 3 expected; both must give the "
        "same count");
  CHECK(!diagnose(early, std::vector<RankView>{view(0, in_call("a")), view(1, with({1, 2, 3}, {1, 2, 5})),
                                               view(2, with({4, 5, 6}, {7, 3, 6}))}));
}

TEST_CASE("the list that most ranks gave is the right one, whoever asks") {
  Status there = in_call("a");
  Status elsewhere;
  elsewhere.other_members = {0, 1, 2, 3};
  const auto of = [](int rank, const Status& status, bool is_member = true) {
    return RankView{
        .rank = rank, .name = "r", .job_name = "j" + std::to_string(rank), .is_member = is_member, .status = status};
  };
  Report report = report_of(1, false);
  report.members = {0, 3};
  const auto failure = diagnose(
      report, std::vector<RankView>{of(0, there), of(3, elsewhere), of(1, elsewhere, false), of(2, elsewhere, false)});
  REQUIRE(failure);
  CHECK(failure->culprit == 0);
  CHECK(
      failure->text ==
      "j0 made a sub-group of the ranks {0, 3} of the job while j1 and 2 more made one of the ranks {0, 1, 2, 3}: all "
      "members must give the same list in the same order");
}

std::vector<ControlMessage> samples() {
  const Failure failure{7, ErrorCode::timeout, 3, 42, "who, what"};
  Report report = report_of(42, true);
  report.peer = 2;
  report.groups = {1, ~std::uint64_t{0}};
  Status status = in_call("all_reduce #5", {0, 2});
  status.asynchronous = true;
  status.in_rounds = status.on_stream = true;
  status.unclaimed = "a message";
  status.sends = {1, ~std::uint64_t{0}};
  status.receives = {3};
  status.other_members = {4, 5};
  status.other_group = 77;
  return {{.kind = ControlMessage::Kind::beat},
          {.kind = ControlMessage::Kind::ready},
          {.kind = ControlMessage::Kind::leave, .ranks = {1, 2, 3}},
          {.kind = ControlMessage::Kind::failure, .failure = failure},
          {.kind = ControlMessage::Kind::suspicion, .failure = failure, .report = report},
          {.kind = ControlMessage::Kind::report, .report = report},
          {.kind = ControlMessage::Kind::question, .number = 5, .report = report},
          {.kind = ControlMessage::Kind::answer, .number = 5, .status = status},
          {.kind = ControlMessage::Kind::reunion, .report = report},
          {.kind = ControlMessage::Kind::decision, .number = 6, .report = report, .ranks = {0, 2}},
          {.kind = ControlMessage::Kind::departed, .ranks = {5, 7}}};
}

TEST_CASE("messages come back as they went, and no part of one is taken for another") {
  for (const ControlMessage& message : samples()) {
    const std::string bytes = encode(message);
    const auto body = std::span(bytes).subspan(control_message_head);
    const auto back = decode_control_message(body);
    REQUIRE(back);
    CHECK(*back == message);
    for (std::size_t size = 0; size < body.size(); ++size) CHECK(!decode_control_message(body.first(size)));
    CHECK(!decode_control_message(bytes.substr(control_message_head) + "x"));
  }
}

TEST_CASE("a message has the bytes that docs/wire.md says") {
  const ControlMessage example{.kind = ControlMessage::Kind::failure,
                               .failure = {0x8877665544332210, ErrorCode::peer_lost, 2, 42, "rank 2 is lost"}};
  const std::vector<std::byte> documented = tutti::testing::documented_bytes("message");
  REQUIRE(documented.size() > control_message_head);
  const std::string bytes{reinterpret_cast<const char*>(documented.data()), documented.size()};
  CHECK(bytes == encode(example));
  const auto read = decode_control_message(std::span(bytes).subspan(control_message_head));
  REQUIRE(read);
  CHECK(*read == example);
}

TEST_CASE("a message with a word that does not exist is none") {
  std::string bytes = encode({.kind = ControlMessage::Kind::failure}).substr(control_message_head);
  const auto with = [&bytes](std::size_t place, int value) {
    std::string changed = bytes;
    changed[place] = static_cast<char>(value);
    return decode_control_message(changed).has_value();
  };
  CHECK(with(0, static_cast<int>(ControlMessage::Kind::failure)));
  CHECK(!with(0, static_cast<int>(ControlMessage::Kind::departed) + 1));
  CHECK(with(9, error_code_count - 1));
  CHECK(!with(9, error_code_count));
}

TEST_CASE("no bytes make a message crash") {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = encode(samples()[random() % samples().size()]).substr(control_message_head);
    for (unsigned change = 0; change <= random() % 4; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto message = decode_control_message(bytes))
      CHECK(decode_control_message(encode(*message).substr(control_message_head)));
  }
}

TEST_CASE("a message stays within its limit whatever is put into it") {
  ControlMessage message = samples()[7];
  message.status.call.assign(100'000, 'x');
  message.status.doing = message.status.unclaimed = message.status.call;
  message.status.awaited.assign(100'000, 1);
  message.status.unread = message.status.other_members = message.status.awaited;
  message.status.sends.assign(100'000, 1);
  message.status.receives = message.status.sends;
  const std::string bytes = encode(message);
  CHECK(bytes.size() <= max_control_message + control_message_head);
  CHECK(decode_control_message(std::span(bytes).subspan(control_message_head)));
}

TEST_CASE("messages list thousands of ranks and groups, and a report says if there are more") {
  ControlMessage message = samples()[9];
  message.ranks.clear();
  message.report.members.clear();
  message.report.groups.clear();
  for (int rank = 0; rank < 2049; ++rank) message.ranks.push_back(rank);
  message.report.members.assign(message.ranks.begin(), message.ranks.end());
  for (std::uint64_t group = 0; group < 10'000; ++group) message.report.groups.push_back(group << 40 | 1);
  const auto back = [](const ControlMessage& sent) {
    const std::string bytes = encode(sent);
    CHECK(bytes.size() <= max_control_message + control_message_head);
    return decode_control_message(std::span(bytes).subspan(control_message_head)).value();
  };
  CHECK(back(message) == message);

  message.report.groups.resize(most_listed + 1);
  message.report.members.resize(most_listed);
  message.ranks.resize(most_listed);
  const ControlMessage cut = back(message);
  CHECK(!cut.report.lists_all);
  CHECK(cut.report.groups.size() == most_listed);
  CHECK(cut.ranks == message.ranks);
}

TEST_CASE("a wait asks soon, then ever less often, demands at its deadline, and gives up") {
  using namespace std::chrono_literals;
  const WaitEscalation::Clock::time_point begin{};
  WaitEscalation escalation;
  escalation.begin(begin, begin + 2s, true);
  CHECK(escalation.next() == begin + 200ms);
  CHECK(escalation.act(begin + 200ms) == WaitEscalation::Act::ask);
  CHECK(escalation.next() == begin + 600ms);
  CHECK(escalation.act(begin + 600ms) == WaitEscalation::Act::ask);
  CHECK(escalation.next() == begin + 1400ms);
  CHECK(escalation.act(begin + 1400ms) == WaitEscalation::Act::ask);
  CHECK(escalation.next() == begin + 2s);
  CHECK(escalation.act(begin + 2s) == WaitEscalation::Act::demand);
  CHECK(escalation.next() == begin + 2s + 500ms);  // docs/failures.md
  CHECK(escalation.act(escalation.next()) == WaitEscalation::Act::give_up);

  // Somebody has gone: the wait that asked long ago asks anew.
  escalation.begin(begin, begin + 60s, true);
  auto now = begin;
  while (now < begin + 10s) REQUIRE(escalation.act(now = escalation.next()) == WaitEscalation::Act::ask);
  REQUIRE(escalation.next() > now + 4s);
  escalation.hasten(now);
  CHECK(escalation.next() == now + 200ms);
  CHECK(escalation.act(escalation.next()) == WaitEscalation::Act::ask);
  CHECK(escalation.next() == now + 400ms);

  escalation.begin(begin, begin + 2s, false);
  escalation.hasten(begin);
  CHECK(escalation.next() == begin + 2s);
  CHECK(escalation.act(begin + 2s) == WaitEscalation::Act::give_up);
}

}  // namespace
}  // namespace tutti::detail
