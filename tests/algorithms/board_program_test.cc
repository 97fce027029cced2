// What plans become on a board, and the proof that it is right.

#include "algorithms/board_program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check_board.h"
#include "tests/algorithms/hand_made.h"
#include "tests/support/sample.h"

namespace tutti::algorithms::testing {
namespace {

using enum Collective;

bool has_root(Collective collective) {
  return collective == broadcast || collective == reduce || collective == scatter || collective == gather;
}

std::vector<Plan> plans_by_name(Collective collective, const char* name, const Shape& shape) {
  return algorithms::plans_of_all(find(collective, name), shape);
}

BoardProgram program(Collective collective, const char* name, const Shape& shape) {
  const Lowering made = lower_to_board(plans_by_name(collective, name, shape));
  REQUIRE(made.why_not == "");
  return made.programs[static_cast<std::size_t>(shape.rank)];
}

std::vector<int> ranks_of(const BoardProgram::Round& round) {
  std::vector<int> ranks;
  for (const BoardProgram::Source& source : round.sources) ranks.push_back(source.rank);
  return ranks;
}

// ---- The proof -------------------------------------------------------------------------------------------------

struct Proved {
  std::size_t boards = 0;
  std::size_t windows = 0;
};

void prove(const Entry& entry, const Shape& shape, Proved& proved) {
  CAPTURE(std::string{name_of(entry.collective)});
  CAPTURE(std::string{entry.name});
  CAPTURE(shape.ranks);
  CAPTURE(shape.root);
  CAPTURE(shape.pipeline);
  const Claims claims{entry.equal_parts, entry.rank_order};
  const Lowering made = lower_to_board(algorithms::plans_of_all({&entry, shape.radix, shape.pipeline}, shape));
  REQUIRE_MESSAGE(!made.programs.empty(), made.why_not);
  ++proved.boards;
  CHECK(made.programs[0].rank_order >= entry.rank_order);
  // The areas that two ranks use in a round depend on it.
  for (std::size_t round = 0; shape.ranks == 2 && round < made.programs[0].rounds.size(); ++round)
    CHECK(made.programs[0].rounds[round].exchanges() == made.programs[1].rounds[round].exchanges());
  const Verdict on_board = check_board(entry.collective, shape, made.programs, claims);
  CHECK_MESSAGE(on_board.ok(), problems(on_board));
  if (!entry.shared_buffers) return;
  ++proved.windows;
  const std::vector<WindowProgram> windows = lower_to_windows(made.programs, shape.root);
  REQUIRE(windows.size() == made.programs.size());
  const Verdict in_windows = check_windows(entry.collective, shape, windows, claims);
  CHECK_MESSAGE(in_windows.ok(), problems(in_windows));
}

TEST_CASE("every algorithm of the catalogue that runs on boards is right there, for 1 to 64 ranks") {
  Proved proved;
  const int most = tutti::testing::only_a_sanitized_sample() ? 20 : 64;
  tutti::testing::Lot lot{2, 8};
  for (const Entry& entry : catalogue()) {
    if (!entry.mesh) continue;
    for (int ranks = 1; ranks <= most; ++ranks)
      for (const int root : std::set<int>{0, ranks / 2, ranks - 1})
        for (const int pipeline : {1, 3})
          if ((root == 0 || has_root(entry.collective)) && (pipeline == 1 || (entry.has_pipeline && ranks <= 17)) &&
              (ranks <= 8 || lot.draws()))
            prove(entry, {0, ranks, root, pipeline}, proved);
  }
  std::printf("%zu shapes proved on boards, %zu in shared buffers, 1 to %d ranks\n", proved.boards, proved.windows,
              most);
}

TEST_CASE("the algorithms that the catalogue says run on boards are those whose plans can") {
  for (const Entry& entry : catalogue()) {
    CAPTURE(std::string{name_of(entry.collective)});
    CAPTURE(std::string{entry.name});
    bool can = true;
    for (const int ranks : {7, 8, 9})  // some plans of few rounds fit for some of these numbers, by chance
      can = can && !lower_to_board(algorithms::plans_of_all({&entry}, {0, ranks})).programs.empty();
    // Pairwise sends what direct sends, but one message after the other, for links that cannot take all at once. Rails
    // are for links between hosts; their all-gather has two rounds.
    const bool is_for_links = (entry.collective == all_to_all && entry.name == "pairwise") || entry.name == "rails";
    // Those that may go by domains run there only with domains, which are tested apart.
    CHECK(entry.mesh == (can && !is_for_links && !entry.has_domains));
  }
}

// ---- What is read off plans ------------------------------------------------------------------------------------

TEST_CASE("the vector of a one-shot all_reduce is one unit, which all post and all fold in the order of ranks") {
  const BoardProgram made = program(all_reduce, "direct", {1, 4});
  REQUIRE(made.rounds.size() == 1);
  const BoardProgram::Round& round = made.rounds[0];
  for (const auto& contribution : round.contributions) CHECK(contribution.ranges == std::vector<Blocks>{in(0, 4)});
  CHECK(round.contributors == 4);
  CHECK(round.most_units == 1);
  CHECK(round.same_blocks);
  CHECK(round.awaited == std::vector<int>{0, 2, 3});
  REQUIRE(round.results.size() == 1);
  CHECK(round.results[0].dst == out(0, 4));
  CHECK(ranks_of(round) == std::vector<int>{0, 1, 2, 3});
  CHECK(made.is_simple());
}

TEST_CASE("a two-shot all_reduce takes two rounds: parts are folded, and then read by all") {
  const BoardProgram made = program(all_reduce, "direct_two_shot", {2, 3});
  REQUIRE(made.rounds.size() == 2);
  CHECK(made.rounds[0].results == std::vector<BoardProgram::Result>{{out(2), 0, 3}});
  CHECK(made.rounds[1].contributions[2].ranges == std::vector<Blocks>{out(2)});
  CHECK(made.rounds[1].results == std::vector<BoardProgram::Result>{{out(0), 0, 1}, {out(1), 1, 1}});
  CHECK(ranks_of(made.rounds[1]) == std::vector<int>{0, 1});
  CHECK_FALSE(made.is_simple());
  CHECK(made.rank_order);
}

TEST_CASE("copies of a rank's own data come first, and wait for no other rank") {
  for (const Collective collective : {all_gather, all_to_all, gather}) {
    const BoardProgram::Round round = program(collective, "direct", {2, 4, 2}).rounds.front();
    REQUIRE(round.own_copies == 1);
    CHECK(round.results[0].dst == out(2));
    CHECK(round.sources[static_cast<std::size_t>(round.results[0].first)].rank == 2);
    for (std::size_t i = 1; i < round.results.size(); ++i)
      CHECK(round.sources[static_cast<std::size_t>(round.results[i].first)].rank != 2);
  }
  CHECK(program(all_reduce, "direct", {2, 4}).rounds.front().own_copies == 0);  // its fold needs the others
  CHECK(program(gather, "direct", {1, 4, 2}).rounds.front().own_copies == 0);   // the root alone has a result
}

TEST_CASE("all_pairs folds from its own rank downwards, as its plan does") {
  const BoardProgram made = program(reduce_scatter, "all_pairs", {2, 4});
  REQUIRE(made.rounds.size() == 1);
  CHECK(ranks_of(made.rounds[0]) == std::vector<int>{2, 1, 0, 3});
  CHECK_FALSE(made.rank_order);
  CHECK_FALSE(made.is_simple());
  // Its own part comes first: nobody posts a part for itself.
  CHECK(made.rounds[0].contributions[2].ranges == std::vector<Blocks>{in(0, 2), in(3)});
}

TEST_CASE("a fold whose own part may be overwritten before its turn posts it") {
  const BoardProgram made = program(reduce_scatter, "direct", {2, 4});
  CHECK(made.rounds[0].contributions[2].ranges == std::vector<Blocks>{in(0, 4)});
  for (const BoardProgram::Source& source : made.rounds[0].sources) CHECK(source.unit == 2);
}

TEST_CASE("of a scatter only the root posts, the parts of the others") {
  const BoardProgram made = program(scatter, "direct", {0, 4, 2});
  const BoardProgram::Round& round = made.rounds[0];
  CHECK(round.contributions[2].ranges == std::vector<Blocks>{in(0, 2), in(3)});
  CHECK(round.contributions[0].ranges.empty());
  CHECK(round.contributors == 1);
  CHECK(round.awaited == std::vector<int>{2});
  CHECK(program(scatter, "direct", {2, 4, 2}).rounds[0].awaited.empty());
  CHECK(program(scatter, "direct", {2, 4, 2}).rounds[0].readings.size() == 3);
}

TEST_CASE("in shared buffers of an all_reduce each rank folds a part and writes it to all") {
  const auto lowered = lower_to_board(plans_by_name(all_reduce, "direct_two_shot", {0, 3}));
  const WindowProgram made = lower_to_windows(lowered.programs, 0)[1];
  REQUIRE(made.tasks.size() == 1);
  CHECK(made.tasks[0].dst == out(1));
  CHECK(made.destinations == std::vector<int>{1, 0, 2});
  CHECK(made.sources == std::vector<WindowProgram::Part>{{0, in(1)}, {1, in(1)}, {2, in(1)}});
  CHECK(made.shares_input);
  CHECK(made.shares_output);
}

TEST_CASE("in shared buffers the root writes what only it has, and everything else is read") {
  const auto scattered = lower_to_board(plans_by_name(scatter, "direct", {0, 2, 1}));
  const std::vector<WindowProgram> pushed = lower_to_windows(scattered.programs, 1);
  CHECK(pushed[0].tasks.empty());
  CHECK(pushed[1].tasks.size() == 2);
  CHECK_FALSE(pushed[0].shares_input);
  CHECK(pushed[0].shares_output);
  for (const int root : {0, 1}) {
    const auto gathered = lower_to_board(plans_by_name(gather, "direct", {0, 2, root}));
    const std::vector<WindowProgram> pulled = lower_to_windows(gathered.programs, root);
    CHECK(pulled[static_cast<std::size_t>(1 - root)].tasks.empty());
    CHECK(pulled[0].shares_input);
    CHECK_FALSE(pulled[0].shares_output);
  }
}

// ---- Plans that stay on links ----------------------------------------------------------------------------------

std::string why_not(Collective collective, const char* name, int ranks) {
  return lower_to_board(plans_by_name(collective, name, {0, ranks})).why_not;
}

TEST_CASE("plans that cannot run on a board say why") {
  CHECK(why_not(all_gather, "ring", 5) == "takes more than two rounds");
  CHECK(why_not(all_reduce, "doubling", 4) == "sends what it keeps in scratch");
  CHECK(why_not(reduce, "all_pairs", 3) == "sends what it keeps in scratch");
  const auto wrong = [](const Script& script) { return lower_to_board(plans_of(2, script)).why_not; };
  CHECK(wrong([](PlanBuilder& plan, int rank) { plan.recv(1 - rank, out(rank)); }) ==
        "waits for a message that is never sent");
  CHECK(wrong([](PlanBuilder& plan, int rank) {
          plan.send(1 - rank, in(0));
          plan.send(1 - rank, in(1));
          plan.recv(1 - rank, out(rank));
          plan.copy(out(1 - rank), in(rank));
        }) == "moves its own data to another place");
  CHECK(wrong([](PlanBuilder& plan, int rank) {
          plan.send(1 - rank, in(0));
          plan.recv_reduce(1 - rank, out(0), in(0));
          plan.reduce(out(1), in(1), out(0));
        }) == "combines sums with each other");
  CHECK(wrong([](PlanBuilder& plan, int rank) {
          if (rank == 0) plan.send(1, in(0, 2));
          if (rank == 1) plan.recv(0, out(0, 2));
          plan.copy(out(1), in(1));
          plan.recv_reduce(1 - rank, out(0));
        }) == "waits for a message that is never sent");
  CHECK(wrong([](PlanBuilder& plan, int rank) {
          plan.send(1 - rank, in(rank));
          plan.recv(1 - rank, out(1 - rank));
          plan.send(1 - rank, out(1 - rank));
          plan.recv(1 - rank, out(rank));
          plan.copy(out(1 - rank), in(1 - rank));
        }) == "writes over what it has sent");
}

// ---- What the proof finds --------------------------------------------------------------------------------------

struct Spoilt {
  Collective collective;
  const char* name;
  const char* finds;
  std::function<void(std::vector<BoardProgram>&)> spoil;
};

TEST_CASE("the proof finds what is wrong with a program for a board") {
  const Spoilt cases[] = {
      {all_reduce, "direct", "does not fold in rank order",
       [](auto& all) { std::swap(all[1].rounds[0].sources[0], all[1].rounds[0].sources[2]); }},
      {all_reduce, "direct", "lacking rank 2",
       [](auto& all) {
         all[1].rounds[0].sources.pop_back();
         --all[1].rounds[0].results[0].count;
       }},
      {all_gather, "direct", "which it does not wait for", [](auto& all) { all[1].rounds[0].awaited = {0}; }},
      {all_gather, "direct", "takes results for copies of its own input",
       [](auto& all) { all[1].rounds[0].own_copies = 2; }},
      {all_gather, "direct", "takes results for copies of its own input",
       [](auto& all) { all[1].rounds[0].own_copies = 4; }},
      {reduce_scatter, "direct", "in the wrong place", [](auto& all) { ++all[1].rounds[0].sources[0].unit; }},
      {all_to_all, "direct", "where nothing is posted", [](auto& all) { all[1].rounds[0].sources[2].range ^= 1; }},
      {all_to_all, "direct", "a block of another size",
       [](auto& all) { std::swap(all[1].rounds[0].results[1].dst, all[1].rounds[0].results[2].dst); }},
      {broadcast, "direct", "takes contributions for others",
       [](auto& all) { all[2].rounds[0].contributions[0].ranges[0].count = 2; }},
      {gather, "direct", "does not know that rank 0 reads of it", [](auto& all) { all[1].rounds[0].readings.clear(); }},
      {all_reduce, "direct_two_shot", "does not take part in every round", [](auto& all) { all[1].rounds.pop_back(); }},
  };
  for (const Spoilt& one : cases) {
    CAPTURE(std::string{one.finds});
    const Entry& entry = *find(one.collective, one.name).entry;
    Lowering made = lower_to_board(plans_by_name(one.collective, one.name, {0, 3}));
    REQUIRE(made.programs.size() == 3);
    one.spoil(made.programs);
    const Verdict verdict = check_board(one.collective, {0, 3}, made.programs, {entry.equal_parts, entry.rank_order});
    const std::string found = problems(verdict);
    CAPTURE(found);
    CHECK(found.find(one.finds) != std::string::npos);
  }
}

TEST_CASE("the proof finds ranks that write what others touch in shared buffers") {
  const auto lowered = lower_to_board(plans_by_name(all_reduce, "direct", {0, 3}));
  const std::vector<WindowProgram> one_shot = lower_to_windows(lowered.programs, 0);  // writes what others still read
  const Verdict verdict = check_windows(all_reduce, {0, 3}, one_shot, {false, true});
  CHECK(problems(verdict).find("which rank 1 writes (in place)") != std::string::npos);
}

TEST_CASE("a trace's reader learns by an algorithm's name which rank reads of which") {
  BoardReaders readers;
  CHECK(readers(gather, "direct", 3, 1, 1, 0));
  CHECK_FALSE(readers(gather, "direct", 3, 1, 0, 1));
  CHECK(readers(all_reduce, "direct_two_shot", 3, 0, 0, 1));
  CHECK_FALSE(readers(all_reduce, "ring", 5, 0, 0, 1));
  CHECK_FALSE(readers(all_reduce, "a name of tomorrow", 3, 0, 0, 1));
  for (const int root : {-1, 3, 1000000}) CHECK_FALSE(readers(gather, "direct", 3, root, 1, 0));
}

}  // namespace
}  // namespace tutti::algorithms::testing
