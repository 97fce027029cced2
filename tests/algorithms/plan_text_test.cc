#include "algorithms/plan_text.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/describe.h"
#include "tests/algorithms/hand_made.h"
#include "tests/algorithms/mutants.h"
#include "tutti/error.h"

namespace tutti::algorithms {
namespace {

/// Also the order of successors, which assemble() sorts, as builders happen to do.
void check_same(const Plan& a, const Plan& b) {
  REQUIRE(a.steps.size() == b.steps.size());
  for (StepId step = 0; step < a.steps.size(); ++step) CHECK(testing::same_step(a.steps[step], b.steps[step]));
  CHECK(a.shape.rank == b.shape.rank);
  CHECK(a.waits_for == b.waits_for);
  CHECK(a.successor_begin == b.successor_begin);
  CHECK(a.successor == b.successor);
  CHECK(a.next_on_lane == b.next_on_lane);
  CHECK(a.scratch_like == b.scratch_like);
  CHECK(a.lanes.size() == b.lanes.size());
}

std::string refusal(const std::string& text) {
  try {
    read_plans(text, "own.plan");
  } catch (const Error& error) {
    return error.what();
  }
  return "was taken";
}

void check_refused(const std::string& text, const std::string& words) {
  CHECK_MESSAGE(refusal(text).find(words) != std::string::npos, "expected \"", words, "\" in: ", refusal(text));
}

const std::string exchange_text =
    "tutti-plans 1\n"
    "all_gather swap ranks 2 root 0 pipeline 1   # two ranks tell each other\n"
    "rank 0\n"
    "send 1 i0\n"
    "recv 1 o1\n"
    "copy o0 i0 after 0\n"
    "\n"
    "rank 1\n"
    "send 0 i1\n"
    "recv 0 o0\n"
    "copy o1 i1 after 0\n";

std::string spoilt(const std::string& what, const std::string& by) {
  std::string text = exchange_text;
  return text.replace(text.find(what), what.size(), by);
}

TEST_CASE("every algorithm is read as it was written") {
  for (const Entry& entry : catalogue())
    for (const int ranks : {1, 2, 5, 8}) {
      CAPTURE(std::string{entry.name});
      CAPTURE(ranks);
      GivenPlans given{.name = "own", .collective = entry.collective};
      given.equal_parts = entry.equal_parts;
      given.rank_order = entry.rank_order;
      const int pipeline = entry.has_pipeline ? 2 : 1;
      for (int rank = 0; rank < ranks; ++rank) given.plans.push_back(entry.build({rank, ranks, 0, pipeline}));
      const GivenPlans read = read_plans(write_plans(given), "own.plan");
      CHECK(read.name == "own");
      CHECK(read.collective == entry.collective);
      CHECK(read.equal_parts == entry.equal_parts);
      CHECK(read.rank_order == entry.rank_order);
      REQUIRE(read.plans.size() == given.plans.size());
      for (std::size_t rank = 0; rank < read.plans.size(); ++rank) check_same(read.plans[rank], given.plans[rank]);
    }
}

TEST_CASE("an error in a file of plans is named with its line") {
  CHECK(refusal(exchange_text) == "was taken");
  check_refused("", "own.plan:0: a file of plans begins with \"tutti-plans 1\"");
  check_refused(spoilt("plans 1", "plans 2"), "own.plan:1: a file of plans begins");
  check_refused(spoilt("all_gather", "al_gather"), "own.plan:2: There is no collective \"al_gather\". Did");
  check_refused(spoilt("swap", "ring"), "own.plan:2: the catalogue has an algorithm ring already");
  check_refused(spoilt("swap", "a:b"), "own.plan:2: the name must have");
  check_refused(spoilt("ranks 2", "ranks 0"), "own.plan:2: \"0\" is not a number from 1 to");
  check_refused(spoilt("root 0", "root 2"), "own.plan:2: \"2\" is not a number from 0 to 1");
  check_refused(spoilt("rank 1", "rank 0"), "own.plan:8: rank 1 must come next");
  check_refused(spoilt("send 1 i0", "send 0 i0"), "own.plan:4: a rank has no messages with itself");
  check_refused(spoilt("send 1 i0", "shout 1 i0"), "own.plan:4: \"shout\" is not one of send");
  check_refused(spoilt("send 1 i0", "send 1 x0"), "own.plan:4: blocks are written like");
  check_refused(spoilt("send 1 i0", "send 1 i2"), "own.plan:4: \"2\" is not a number from 0 to 1");
  check_refused(spoilt("send 1 i0", "send 1 i1+2"), "own.plan:4: \"2\" is not a number from 1 to 1");
  check_refused(spoilt("send 1 i0", "send 1 s0"), "own.plan:4: \"s0\": this rank has no scratch");
  check_refused(spoilt("recv 1 o1", "recv 1 o1 after 1"), "own.plan:5: \"1\" is not a number from 0 to 0");
  check_refused(spoilt("copy o0 i0", "copy o0+2 i0"), "own.plan:6: the operands of this copy differ in their number");
  check_refused(spoilt("pipeline 1", "pipeline 1 fast"), "own.plan:2: \"fast\" is not one of equal-parts, rank-order");
  check_refused(spoilt("recv 1 o1", "recv 1 o1 before 0"), "\"before\" stands where \"after\" must");
  check_refused(exchange_text.substr(0, exchange_text.find("rank 1")), "it ends after rank 1 of 2");
}

/// Without what steps wait for, which the reader is to derive.
std::string without_waits(std::string text) {
  const std::string last = " pipeline ";
  text.insert(text.find_first_of(" \n", text.find(last) + last.size()), " derive-waits");
  for (std::size_t at = text.find(" after "); at != std::string::npos; at = text.find(" after "))
    text.erase(at, text.find('\n', at) - at);
  return text;
}

TEST_CASE("waits that a file leaves out are derived as builders derive them") {
  for (const Entry& entry : catalogue())
    for (const int ranks : {2, 5, 8}) {
      CAPTURE(std::string{entry.name});
      CAPTURE(ranks);
      GivenPlans given{.name = "own", .collective = entry.collective};
      given.equal_parts = entry.equal_parts;
      given.rank_order = entry.rank_order;
      for (int rank = 0; rank < ranks; ++rank) given.plans.push_back(entry.build({rank, ranks}));
      const GivenPlans read = read_plans(without_waits(write_plans(given)), "own.plan");
      REQUIRE(read.plans.size() == given.plans.size());
      for (std::size_t rank = 0; rank < read.plans.size(); ++rank) check_same(read.plans[rank], given.plans[rank]);
    }
}

TEST_CASE("waits that a file adds to derived ones are kept") {
  const std::string text = without_waits(exchange_text);
  CHECK(read_plans(text, "own.plan").plans[0].waits_for == std::vector<std::uint32_t>{0, 0, 1});
  std::string more = text;
  more.replace(more.find("copy o0 i0"), 10, "copy o0 i0 after 0 1");
  CHECK(read_plans(more, "own.plan").plans[0].waits_for == std::vector<std::uint32_t>{0, 0, 2});
  more.replace(more.find("copy o0 i0"), 10, "copy o0 o0");
  check_refused(more, "own.plan:6: it copies blocks onto themselves");
}

TEST_CASE("a plan that was read says whether links need room for whole messages") {
  CHECK_FALSE(read_plans(exchange_text, "own.plan").needs_room);
  std::string both_wait = spoilt("recv 1 o1", "recv 1 o1 after 0");
  both_wait.replace(both_wait.find("recv 0 o0"), 9, "recv 0 o0 after 0");
  CHECK(read_plans(both_wait, "own.plan").needs_room);
}

TEST_CASE("plans that are wrong are not taken") {
  check_refused(spoilt("recv 1 o1\n", ""),
                "own.plan: the plan is wrong: all_gather: rank 1 step 0 in line 8 (send to 0): sends "
                "a message that rank 0 never receives");
  check_refused(spoilt("copy o0 i0 after 0\n", ""), "rank 0: ends with output[0] empty");
  check_refused(spoilt("copy o0 i0 after 0", "copy o0 i0"), "races with step 2 in line 6 (copy) for input[0]");
}

}  // namespace
}  // namespace tutti::algorithms
