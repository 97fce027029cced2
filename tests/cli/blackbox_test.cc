// What the boxes of several ranks say together, from boxes made by hand.

#include "cli/blackbox/blackbox.h"

#include <doctest/doctest.h>

#include "lib/collective/call.h"
#include "tutti/options.h"
#include "tutti/types.h"

namespace tutti::cli {
namespace {

using black_box::CallRecord;
using black_box::OperationRecord;
using black_box::Snapshot;
using black_box::State;

constexpr std::uint64_t world_group = 100;
constexpr std::int64_t one_second = 1'000'000'000;

/// A rank of a job that has made the world, seen 50 s after the system's start.
Snapshot rank(int number, int size = 3) {
  Snapshot box;
  box.used = true;
  box.rank = number;
  box.size = size;
  box.pid = 1000 + number;
  box.job = "job";
  box.taken = 50 * one_second;
  box.groups = {{world_group, size, number, 1}};
  return box;
}

/// Operation `number` of the world begins 10 s after operation 0 did, at second 0.
OperationRecord& call(Snapshot& box, std::uint64_t number, State state, std::uint32_t parts_done = 6) {
  OperationRecord entry;
  entry.number = box.entries.size() + 1;
  entry.call.group = world_group;
  entry.call.operation = number;
  entry.call.count = 1000;
  entry.call.started = static_cast<std::int64_t>(number) * 10 * one_second;
  entry.call.collective = static_cast<std::uint8_t>(Collective::all_reduce);
  entry.call.type = static_cast<std::uint8_t>(DataType::f32);
  entry.call.parts = 6;
  entry.call.algorithm = {'r', 'i', 'n', 'g'};
  entry.state = state;
  entry.parts_done = parts_done;
  entry.ended = entry.call.started + one_second;
  box.entries.push_back(entry);
  return box.entries.back();
}

std::vector<std::string> now(const std::vector<Snapshot>& boxes) { return compare(boxes, Tense::present); }

std::string only(const std::vector<std::string>& findings) {
  CHECK(findings.size() == 1);
  return findings.empty() ? "" : findings[0];
}

std::vector<Snapshot> three_at_rest() {
  std::vector<Snapshot> boxes{rank(0), rank(1), rank(2)};
  for (Snapshot& box : boxes) {
    call(box, 1, State::done);
    call(box, 2, State::done);
  }
  return boxes;
}

TEST_CASE("where nobody waits there is nothing to say") {
  CHECK(now({}).empty());
  CHECK(now(three_at_rest()).empty());
  auto boxes = three_at_rest();
  call(boxes[0], 3, State::done);  // a root that has sent all
  CHECK(now(boxes).empty());
  call(boxes[0], 4, State::started);
  CHECK(now({boxes[0]}).empty());
}

TEST_CASE("a rank that has not entered a call is named, with those who wait and since when") {
  auto boxes = three_at_rest();
  call(boxes[0], 3, State::started, 2);
  call(boxes[1], 3, State::started, 1);
  CHECK(only(now(boxes)) ==
        "rank 2 has not entered all_reduce #3 (1000 x f32, sum) with ring (its last call was "
        "all_reduce #2 (1000 x f32, sum) there); ranks 0 and 1 wait for it since 20.0 s");
  boxes[2].entries.clear();
  CHECK(only(compare(boxes, Tense::past)) ==
        "rank 2 had not entered all_reduce #3 (1000 x f32, sum) with ring; ranks "
        "0 and 1 waited for it for 20.0 s");
}

TEST_CASE("the oldest call that somebody waits in counts, not the newest") {
  auto boxes = three_at_rest();
  for (const std::size_t one : {0U, 1U}) {
    call(boxes[one], 3, State::started, 2);
    call(boxes[one], 4, State::started, 0);
  }
  call(boxes[2], 3, State::done);
  CHECK(only(now(boxes)) ==
        "ranks 0 and 1 are in all_reduce #3 (1000 x f32, sum) with ring since 20.0 s, 2 of 6 steps "
        "done; rank 2 has finished it");
}

TEST_CASE("ranks that call different things are told apart") {
  auto boxes = three_at_rest();
  call(boxes[0], 3, State::failed);
  call(boxes[1], 3, State::started).call.count = 999;
  call(boxes[2], 3, State::failed);
  CHECK(only(now(boxes)) ==
        "ranks 0 and 2 called all_reduce #3 (1000 x f32, sum) with ring, rank 1 called all_reduce "
        "#3 (999 x f32, sum) with ring: these must be the same on all ranks");
}

TEST_CASE("ranks that give the same number of elements in parts of other sizes are told apart") {
  auto boxes = three_at_rest();
  for (Snapshot& box : boxes) {
    CallRecord& made = call(box, 3, State::started).call;
    made.collective = static_cast<std::uint8_t>(Collective::all_gather);
    made.flags = black_box::Flags::variable;
    made.count |= std::uint64_t{box.rank == 1 ? 78U : 77U} << 40;
  }
  CHECK(only(now(boxes)) ==
        "ranks 0 and 2 called all_gather_v #3 (1000 x f32 in all) with ring, rank 1 called all_gather_v #3 "
        "(1000 x f32 in all) with ring with other counts: these must be the same on all ranks");
}

TEST_CASE("a rank whose last operations are all of another communicator need not be behind") {
  auto boxes = three_at_rest();
  call(boxes[1], 3, State::started, 2);
  call(boxes[2], 3, State::done);
  boxes[0].entries.clear();
  for (std::uint64_t number = 1; number <= black_box::record_count; ++number) {
    OperationRecord& other = call(boxes[0], number, State::done);
    other.call.group = 7;
    other.number = number + 9;
  }
  CHECK(only(now(boxes)) ==
        "rank 1 is in all_reduce #3 (1000 x f32, sum) with ring since 20.0 s, 2 of 6 steps done; rank 2 has finished "
        "it; rank 0 has no record of it among its last 64 operations");
  CHECK(last_call(boxes[1], boxes) ==
        "rank 1 was in all_reduce #3 (1000 x f32, sum) with ring, 2 of 6 steps done; rank 2 had finished it; rank 0 "
        "had no record of it among its last 64 operations");
  for (OperationRecord& other : boxes[0].entries) other.number -= 9;  // it has made no others
  CHECK(only(now(boxes)).starts_with("rank 0 has not entered all_reduce #3"));
}

TEST_CASE("a rank that is still in a call that failed on the others is the one that held them up") {
  auto boxes = three_at_rest();
  call(boxes[0], 3, State::failed);
  call(boxes[1], 3, State::started, 1);
  call(boxes[2], 3, State::failed);
  CHECK(only(now(boxes)) ==
        "rank 1 is still in all_reduce #3 (1000 x f32, sum) with ring, 1 of 6 steps done, when it "
        "failed on ranks 0 and 2");
  boxes[1].entries.back().state = State::failed;
  CHECK(now(boxes).empty());  // each has said so itself
}

TEST_CASE("where all are in a call the one that got least far is named") {
  auto boxes = three_at_rest();
  call(boxes[0], 3, State::started, 5);
  call(boxes[1], 3, State::started, 3);
  call(boxes[2], 3, State::started, 4);
  CHECK(only(now(boxes)) ==
        "ranks 0, 1 and 2 are in all_reduce #3 (1000 x f32, sum) with ring since 20.0 s; rank 1 got "
        "least far, 3 of 6 steps done");
  CHECK(compare(boxes, Tense::present, 20.5).empty());
}

TEST_CASE("communicators are looked at one by one, the longest wait first, and jobs do not mix") {
  auto boxes = three_at_rest();
  for (const std::size_t one : {1U, 2U}) boxes[one].groups.push_back({7, 2, static_cast<int>(one) - 1, 2});
  call(boxes[1], 1, State::started, 0).call.group = 7;
  call(boxes[0], 3, State::started, 0);
  const auto findings = now(boxes);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0] ==
        "rank 2 has not entered all_reduce #1 (1000 x f32, sum) with ring in the group of ranks 1 and 2; "
        "rank 1 waits for it since 40.0 s");
  CHECK(findings[1].find("ranks 1 and 2 have not entered all_reduce #3") == 0);

  std::vector<Snapshot> strangers{rank(0, 2), rank(1, 2)};
  strangers[0].job = "other";
  call(strangers[0], 1, State::started);
  CHECK(now(strangers).empty());
}

TEST_CASE("messages that nobody has sent or taken are listed") {
  std::vector<Snapshot> boxes{rank(0, 2), rank(1, 2)};
  OperationRecord& receive = call(boxes[0], 1, State::started);
  receive.call.operation = 0;
  receive.call.collective = black_box::receive;
  receive.call.root = 1;
  receive.call.tag = 5;
  CHECK(only(now(boxes)) == "rank 0 is in recv of 1000 x f32 from rank 1 (tag 5) since 40.0 s");
}

TEST_CASE("the call in which a rank died is told, and where the others were") {
  auto boxes = three_at_rest();
  CHECK(last_call(boxes[1], boxes) == "");
  call(boxes[0], 3, State::failed);
  call(boxes[1], 3, State::started, 4);
  CHECK(last_call(boxes[1], boxes) ==
        "rank 1 was in all_reduce #3 (1000 x f32, sum) with ring, 4 of 6 steps done; so "
        "was rank 0; rank 2 had not entered it");
  call(boxes[2], 3, State::done);
  CHECK(last_call(boxes[1], boxes) ==
        "rank 1 was in all_reduce #3 (1000 x f32, sum) with ring, 4 of 6 steps done; so "
        "was rank 0; rank 2 had finished it");
}

TEST_CASE("of processes that ended nobody knows when it is not told how long they were in a call") {
  auto boxes = three_at_rest();
  for (Snapshot& box : boxes) box.gone = true;
  call(boxes[0], 3, State::started, 2);
  call(boxes[1], 3, State::started, 1);
  CHECK(only(compare(boxes, Tense::past)).ends_with("; ranks 0 and 1 waited for it"));
  call(boxes[2], 3, State::done);
  CHECK(only(compare(boxes, Tense::past)) ==
        "ranks 0 and 1 were in all_reduce #3 (1000 x f32, sum) with ring, 1 of 6 steps done; rank 2 had finished it");
  boxes[2].entries.back().state = State::started;
  CHECK(only(compare(boxes, Tense::past)) ==
        "ranks 0, 1 and 2 were in all_reduce #3 (1000 x f32, sum) with ring; rank 1 got least far, 1 of 6 steps done");
  const std::string text = as_text(boxes[0], 2);
  CHECK(text.find("      1.000000 s  world: all_reduce #2 ") != std::string::npos);
  CHECK(text.find("             ? s  world: all_reduce #3 ") != std::string::npos);
  boxes[0].entries.back().call.operation = 0;
  boxes[0].entries.back().call.collective = black_box::receive;
  boxes[1].entries.pop_back();
  boxes[2].entries.pop_back();
  CHECK(only(compare(boxes, Tense::past)) == "rank 0 was in recv of 1000 x f32 from rank 0 (tag 0)");
}

TEST_CASE("findings have no control characters that a foreign box may have") {
  auto boxes = three_at_rest();
  for (Snapshot& box : boxes) call(box, 3, State::started).call.algorithm = {'r', '\x1b', '[', '7', 'm'};
  CHECK(only(now(boxes)).find("with r?[7m since") != std::string::npos);
  CHECK(last_call(boxes[1], boxes).find("with r?[7m, 6 of 6 steps done") != std::string::npos);
}

/// The calls that are there were in an earlier world of the same process.
void connect_again(Snapshot& box) { box.earlier = box.entries.size(); }

TEST_CASE("calls of an earlier world are not taken for those of this one") {
  auto boxes = three_at_rest();
  call(boxes[0], 3, State::started);  // which its process died in; another one took its place
  boxes[0].entries.back().call.operation = 0;
  call(boxes[1], 3, State::failed).culprit = 0;
  for (Snapshot& box : boxes) connect_again(box);
  CHECK(now(boxes).empty());
  CHECK(last_call(boxes[0], boxes) == "");
  CHECK(blamed_by(boxes[1], boxes) == -1);
  for (Snapshot& box : boxes) call(box, 1, State::done);
  call(boxes[0], 2, State::started, 2);
  call(boxes[1], 2, State::started, 1);
  CHECK(only(now(boxes)) ==
        "rank 2 has not entered all_reduce #2 (1000 x f32, sum) with ring (its last call was "
        "all_reduce #1 (1000 x f32, sum) there); ranks 0 and 1 wait for it since 30.0 s");
  CHECK(as_text(boxes[1], 5).find("  an earlier world: all_reduce #2 ") != std::string::npos);
  CHECK(as_text(boxes[1], 5).find("  world: all_reduce #2 ") != std::string::npos);
}

TEST_CASE("ranks of different worlds are not compared") {
  auto boxes = three_at_rest();
  call(boxes[0], 3, State::started);
  boxes[0].world = 77;
  CHECK(now(boxes).empty());
}

TEST_CASE("a rank died in a call of a communicator for which its own box had no place any more") {
  std::vector<Snapshot> boxes{rank(0, 2), rank(1, 2)};
  boxes[1].groups.push_back({7, 2, 1, 2});
  call(boxes[0], 1, State::started).call.group = 7;
  CHECK(last_call(boxes[0], boxes) == "rank 0 was in all_reduce #1 (1000 x f32, sum)");
  call(boxes[1], 1, State::started).call.group = 7;
  CHECK(last_call(boxes[0], boxes) == "rank 0 was in all_reduce #1 (1000 x f32, sum)");
  boxes[1].groups.pop_back();
  CHECK(last_call(boxes[0], boxes) == "rank 0 was in all_reduce #1 (1000 x f32, sum)");
}

/// A call over a board.
OperationRecord& call_on_board(Snapshot& box, std::uint64_t number, State state, std::uint32_t rounds,
                               std::uint64_t bytes) {
  OperationRecord& entry = call(box, number, state, 0);
  entry.call.flags = black_box::Flags::on_board;
  entry.call.parts = rounds;
  entry.bytes = bytes;
  return entry;
}

TEST_CASE("of calls over a board rounds and bytes are told, and who has moved fewest bytes is behind") {
  auto boxes = three_at_rest();
  for (Snapshot& box : boxes) call_on_board(box, 3, State::started, 2, box.rank == 1 ? 0 : 4000);
  CHECK(only(now(boxes)).ends_with("; rank 1 got least far, in round 1 of 2, 0 bytes moved"));
  boxes[1].entries.back().parts_done = 1;
  boxes[1].entries.back().bytes = 4000;
  CHECK(only(now(boxes)).ends_with("; rank 0 got least far, in round 1 of 2, 4000 bytes moved"));
  CHECK(last_call(boxes[1], boxes).find("in round 2 of 2, 4000 bytes moved; so were ranks 0 and 2") !=
        std::string::npos);
  CHECK(as_text(boxes[1], 1).find("with ring, 1/2 rounds, 4000 bytes, not done") != std::string::npos);
  boxes[1].entries.back().call.parts = 1;
  CHECK(as_text(boxes[1], 1).find("with ring, 1/1 round, 4000 bytes") != std::string::npos);
}

TEST_CASE("of several calls that a dead rank had begun the oldest is where it was") {
  auto boxes = three_at_rest();
  call(boxes[1], 3, State::started, 4);
  call(boxes[1], 4, State::started, 0);
  CHECK(last_call(boxes[1], boxes).find("rank 1 was in all_reduce #3 ") == 0);
}

TEST_CASE("the rank that a failure blames is found in the communicator's own numbers") {
  auto boxes = three_at_rest();
  for (const std::size_t one : {1U, 2U}) boxes[one].groups.push_back({7, 2, static_cast<int>(one) - 1, 2});
  CHECK(blamed_by(boxes[1], boxes) == -1);
  OperationRecord& failed = call(boxes[1], 1, State::failed);
  failed.call.group = 7;
  failed.culprit = 1;
  CHECK(blamed_by(boxes[1], boxes) == 2);
  failed.culprit = -1;
  CHECK(blamed_by(boxes[1], boxes) == -1);
}

TEST_CASE("a line of text says when, how long, where, what and how it ended") {
  Snapshot box = rank(2);
  box.host = "n07";
  box.version = "9.9";
  OperationRecord& failed = call(box, 3, State::failed, 2);
  failed.bytes = 77;
  failed.failure = "rank 1 is\x1b[31m gone";
  call(box, 4, State::started, 1);
  const std::string text = as_text(box, 10);
  CHECK(text.find("rank 2 of 3 (host n07, pid 1002), tutti 9.9: 2 operations\n") == 0);
  CHECK(
      text.find("      1.000000 s  world: all_reduce #3 (1000 x f32, sum) with ring, 2/6 steps, 77 bytes, failed: rank "
                "1 is?[31m gone\n") != std::string::npos);
  CHECK(
      text.find("     10.000000 s  world: all_reduce #4 (1000 x f32, sum) with ring, 1/6 steps, 0 bytes, not done\n") !=
      std::string::npos);
  CHECK(as_text(box, 1).find("#3") == std::string::npos);
}

TEST_CASE("calls are described in the words of the API") {
  CallRecord call{.count = 5, .root = 3, .type = static_cast<std::uint8_t>(DataType::f64)};
  call.operation = 2;
  const auto of = [&](Collective collective) {
    call.collective = static_cast<std::uint8_t>(collective);
    return describe(call);
  };
  CHECK(of(Collective::broadcast) == "broadcast #2 (5 x f64, root 3)");
  CHECK(of(Collective::reduce) == "reduce #2 (5 x f64, sum, root 3)");
  CHECK(of(Collective::barrier) == "barrier #2");
  call.flags = black_box::Flags::variable;
  CHECK(of(Collective::all_to_all) == "all_to_all_v #2 (f64)");
  const std::vector<std::size_t> counts{10, 20};
  call.count = detail::counts_word(counts);
  CHECK(of(Collective::all_gather) == "all_gather_v #2 (30 x f64 in all)");
  call.count = 5;
  call.collective = 77;
  CHECK(describe(call) == "an unknown call");
  call.collective = black_box::send;
  call.type = 99;
  CHECK(describe(call) == "send of 5 x ? to rank 3 (tag 0)");
  call.collective = black_box::probe;
  call.root = any_source;
  CHECK(describe(call) == "probe from any rank (tag 0)");
}

}  // namespace
}  // namespace tutti::cli
