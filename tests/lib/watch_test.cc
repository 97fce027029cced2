// The watch's pure parts: what it judges, and its letters.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "lib/vigil.h"
#include "lib/watch/judge.h"
#include "lib/watch/letter.h"
#include "tests/support/documented.h"

namespace tutti::detail {
namespace {

using Presence = Status::Presence;

Report report_of(std::uint64_t operation, bool overdue) {
  return {.group = 9, .operation = operation, .overdue = overdue, .reporter = 0, .call = "call", .members = {0, 1, 2}};
}

Witness witness(int rank, Status status) {
  return {.rank = rank, .name = "r" + std::to_string(rank), .status = status};
}

Status in_call(const std::string& call, std::vector<int> awaited = {}) {
  Status status;
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
  const std::vector<Witness> all = {witness(0, in_call("a")), witness(1, in_call("b")), witness(2, in_call("a"))};
  const auto verdict = judge(report_of(5, false), all);
  REQUIRE(verdict);
  CHECK(verdict->code == ErrorCode::mismatch);
  CHECK(verdict->culprit == 1);
  CHECK(verdict->text == "r1 called b while r0 called a");
}

TEST_CASE("as long as there is time, nobody is blamed for being late") {
  Status absent = in_call("");
  absent.started = 4;
  const std::vector<Witness> all = {witness(0, in_call("a", {1})), witness(1, absent), {.rank = 2, .name = "r2"}};
  CHECK(!judge(report_of(5, false), all));
}

TEST_CASE("at the deadline the silent come first, then the absent, then the slow") {
  Status absent = in_call("");
  absent.started = 4;
  absent.doing = "somewhere";
  Witness silent{.rank = 2, .name = "r2", .silent_seconds = 3};
  auto verdict =
      judge(report_of(5, true), std::vector<Witness>{witness(0, in_call("a", {1})), witness(1, absent), silent});
  REQUIRE(verdict);
  CHECK(verdict->culprit == 2);
  CHECK(verdict->text.find("last sign of life is 3.0 s old") != std::string::npos);

  verdict = judge(report_of(5, true),
                  std::vector<Witness>{witness(0, in_call("a", {1})), witness(1, absent), witness(2, in_call("a"))});
  REQUIRE(verdict);
  CHECK(verdict->culprit == 1);
  CHECK(verdict->text == "r1 is alive but has not called call: it waits in somewhere");

  Status behind = in_call("a");
  behind.steps_done = 2;
  Status ahead = in_call("a", {1, 2});
  ahead.steps_done = 7;
  verdict = judge(report_of(5, true), std::vector<Witness>{witness(0, ahead), witness(1, behind), witness(2, ahead)});
  REQUIRE(verdict);
  CHECK(verdict->culprit == 1);
  CHECK(verdict->text.find("2 of 10 steps") != std::string::npos);
}

TEST_CASE("a call that all have ended when they are asked was late, and nobody's fault") {
  Status done = in_call("a");
  done.finished = 5;
  const std::vector<Witness> all = {witness(0, done), witness(1, done), witness(2, done)};
  auto verdict = judge(report_of(5, true), all);
  REQUIRE(verdict);
  CHECK(verdict->culprit == -1);
  CHECK(verdict->text.find("late, not stuck") != std::string::npos);
  verdict = judge(report_of(0, true), all);
  REQUIRE(verdict);
  CHECK(verdict->text.find("never sent") != std::string::npos);
}

TEST_CASE("who waits for one who left is told at once, but only if nothing moves") {
  Status closed;
  closed.presence = Presence::closed;
  std::vector<Witness> all = {witness(0, in_call("a", {1})), witness(1, closed), witness(2, in_call("a"))};
  Report report = report_of(5, false);
  CHECK(!judge(report, all));
  report.stalled = true;
  CHECK(!judge(report, all));  // what it said before it left may be on its way
  report.overdue = true;
  CHECK(judge(report, all));
  report.overdue = false;
  all[1].known_gone = true;
  const auto verdict = judge(report, all);
  REQUIRE(verdict);
  CHECK(verdict->code == ErrorCode::peer_lost);
  CHECK(verdict->culprit == 1);
}

TEST_CASE("a circle is found wherever one enters it") {
  const auto sender = [](int to) {
    Status status;
    status.presence = Presence::here;
    status.doing = "send to " + std::to_string(to);
    status.awaited = {to};
    return status;
  };
  // Rank 0 waits for the circle of 1 and 2.
  const auto verdict = judge(report_of(0, true),
                             std::vector<Witness>{witness(0, sender(1)), witness(1, sender(2)), witness(2, sender(1))});
  REQUIRE(verdict);
  CHECK(verdict->culprit == 1);
  CHECK(verdict->text.find("r1 waits in send to 2; r2 waits in send to 1;") != std::string::npos);
  CHECK(verdict->text.find("r0") == std::string::npos);
}

std::vector<Letter> samples() {
  const Verdict verdict{7, ErrorCode::timeout, 3, 42, "who, what"};
  Report report = report_of(42, true);
  report.groups = {1, ~std::uint64_t{0}};
  Status status = in_call("all_reduce #5", {0, 2});
  status.rival = {4, 5};
  status.rival_group = 77;
  return {{.kind = Letter::Kind::beat},
          {.kind = Letter::Kind::ready},
          {.kind = Letter::Kind::leave, .ranks = {1, 2, 3}},
          {.kind = Letter::Kind::verdict, .verdict = verdict},
          {.kind = Letter::Kind::accusation, .verdict = verdict},
          {.kind = Letter::Kind::report, .report = report},
          {.kind = Letter::Kind::question, .number = 5, .report = report},
          {.kind = Letter::Kind::answer, .number = 5, .status = status},
          {.kind = Letter::Kind::reunion, .report = report},
          {.kind = Letter::Kind::decision, .number = 6, .report = report, .ranks = {0, 2}}};
}

TEST_CASE("letters come back as they went, and no part of one is taken for another") {
  for (const Letter& letter : samples()) {
    const std::string bytes = encode(letter);
    const auto body = std::span(bytes).subspan(letter_head);
    const auto back = decode_letter(body);
    REQUIRE(back);
    CHECK(*back == letter);
    for (std::size_t size = 0; size < body.size(); ++size) CHECK(!decode_letter(body.first(size)));
    CHECK(!decode_letter(bytes.substr(letter_head) + "x"));
  }
}

TEST_CASE("a letter has the bytes that docs/wire.md says") {
  const Letter example{.kind = Letter::Kind::verdict,
                       .verdict = {0x8877665544332210, ErrorCode::peer_lost, 2, 42, "rank 2 is lost"}};
  const std::vector<std::byte> documented = tutti::testing::documented_bytes("letter");
  REQUIRE(documented.size() > letter_head);
  const std::string bytes{reinterpret_cast<const char*>(documented.data()), documented.size()};
  CHECK(bytes == encode(example));
  const auto read = decode_letter(std::span(bytes).subspan(letter_head));
  REQUIRE(read);
  CHECK(*read == example);
}

TEST_CASE("a letter with a word that does not exist is none") {
  std::string bytes = encode({.kind = Letter::Kind::verdict}).substr(letter_head);
  const auto with = [&bytes](std::size_t place, int value) {
    std::string changed = bytes;
    changed[place] = static_cast<char>(value);
    return decode_letter(changed).has_value();
  };
  CHECK(with(0, static_cast<int>(Letter::Kind::accusation)));
  CHECK(!with(0, static_cast<int>(Letter::Kind::accusation) + 1));
  CHECK(with(9, static_cast<int>(ErrorCode::corrupted)));
  CHECK(!with(9, static_cast<int>(ErrorCode::corrupted) + 1));
}

TEST_CASE("no bytes make a letter crash") {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = encode(samples()[random() % samples().size()]).substr(letter_head);
    for (unsigned change = 0; change <= random() % 4; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto letter = decode_letter(bytes)) CHECK(decode_letter(encode(*letter).substr(letter_head)));
  }
}

TEST_CASE("a letter stays within its limit whatever is put into it") {
  Letter letter = samples()[7];
  letter.status.call.assign(100'000, 'x');
  letter.status.awaited.assign(100'000, 1);
  const std::string bytes = encode(letter);
  CHECK(bytes.size() <= max_letter + letter_head);
  CHECK(decode_letter(std::span(bytes).subspan(letter_head)));
}

TEST_CASE("a wait asks soon, then ever less often, demands at its deadline, and gives up") {
  using namespace std::chrono_literals;
  const Vigil::Clock::time_point begin{};
  Vigil vigil;
  vigil.begin(begin, begin + 2s, true);
  CHECK(vigil.next() == begin + 200ms);
  CHECK(vigil.act(begin + 200ms) == Vigil::Act::ask);
  CHECK(vigil.next() == begin + 600ms);
  CHECK(vigil.act(begin + 600ms) == Vigil::Act::ask);
  CHECK(vigil.next() == begin + 1400ms);
  CHECK(vigil.act(begin + 1400ms) == Vigil::Act::ask);
  CHECK(vigil.next() == begin + 2s);
  CHECK(vigil.act(begin + 2s) == Vigil::Act::demand);
  CHECK(vigil.next() > begin + 2s);
  CHECK(vigil.act(vigil.next()) == Vigil::Act::give_up);

  vigil.begin(begin, begin + 2s, false);
  CHECK(vigil.next() == begin + 2s);
  CHECK(vigil.act(begin + 2s) == Vigil::Act::give_up);
}

}  // namespace
}  // namespace tutti::detail
