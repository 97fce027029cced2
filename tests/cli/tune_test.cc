// What tutti tune rests on, on measurements that are made up: who leaves a race and when, which candidates there
// are, and where algorithms take turns.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "cli/tune/candidates.h"
#include "cli/tune/fit.h"
#include "cli/tune/gpus.h"
#include "cli/tune/table.h"
#include "cli/tune/tournament.h"
#include "tests/cli/races.h"

using namespace tutti;
using namespace tutti::cli::tune;

namespace {

using Names = std::vector<std::string>;

std::string winner(const Race& race) { return race.entrants()[race.leader()].name; }

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string told(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& one : segments)
    text += one.algorithm + (&one == &segments.back() ? "" : " to " + exact_bytes(one.to) + ", ");
  return text;
}

TEST_CASE("tune: who is far behind leaves early, and time goes to those who are close") {
  const std::map<std::string, double> times{{"a", 10}, {"b", 10.5}, {"c", 15}, {"d", 40}};
  Race race{{"d", "c", "b", "a"}};
  run_race(race, [&](const std::string& name, int) { return times.at(name); });
  CHECK(winner(race) == "a");
  CHECK(race.of("d").times.size() == 2);
  CHECK(race.is_alone(race.of("a")));
  CHECK(race.of("c").times.size() == 3);
  CHECK(race.of("b").times.size() == 7);
  CHECK(race.wins(race.of("a"), race.of("b")).shows_winner());
  CHECK(race.ratio(race.of("b"), race.of("a")) == doctest::Approx(1.05));
}

TEST_CASE("tune: slow calls are given up after one") {
  Race race{{"slow", "fast"}};
  CHECK(run_race(race, [&](const std::string& name, int) { return name == "slow" ? 20000 : 10000; }) == 2);
  CHECK(winner(race) == "fast");
}

TEST_CASE("tune: one slow round sends nobody away, and a state of the machine hits all alike") {
  const auto clock = [](const std::string& name, int round) {
    const double state = round % 4 < 2 ? 1 : 5;  // near, far
    const double accident = name == "best" && round == 0 ? 10 : 1;
    return (name == "best" ? 10 : 11.5) * state * accident;
  };
  Race race{{"other", "best"}};
  run_race(race, clock);
  CHECK(winner(race) == "best");
  CHECK(race.wins(race.of("best"), race.of("other")).shows_winner());
  CHECK(race.ratio(race.of("other"), race.of("best")) == doctest::Approx(1.15));
}

TEST_CASE("tune: what differs by chance only beats nobody") {
  Race race{{"a", "b"}};
  run_race(race,
           [](const std::string& name, int round) { return 10 + ((name == "a") == (round % 2 == 0) ? 0.1 : 0.0); });
  CHECK(race.rounds() == Race::most_rounds);
  CHECK_FALSE(race.wins(race.of("a"), race.of("b")).shows_winner());
  CHECK_FALSE(race.wins(race.of("b"), race.of("a")).shows_winner());
}

TEST_CASE("tune: no claim from fewer than five rounds") {
  Race race{{"a", "b"}};
  for (int round = 0; round < 5; ++round) {
    CHECK_FALSE(race.wins(race.of("a"), race.of("b")).shows_winner());
    for (const std::size_t i : race.order()) race.add(i, race.entrants()[i].name == "a" ? 10 : 10.2);
    race.end_round();
  }
  CHECK(race.wins(race.of("a"), race.of("b")).shows_winner());
  CHECK_FALSE(race.is_alone(race.of("a")));
}

TEST_CASE("tune: the order turns round, and who enters late is compared over common rounds") {
  Race race{{"a", "b"}};
  CHECK(race.order() == std::vector<std::size_t>{0, 1});
  for (const double time : {100.0, 110.0}) race.add(time == 100 ? 0 : 1, time);
  race.end_round();
  CHECK(race.order() == std::vector<std::size_t>{1, 0});
  race.enter("c");
  race.enter("a");
  CHECK(race.entrants().size() == 3);
  race.add(0, 10);
  race.add(1, 12);
  race.add(2, 9);
  race.end_round();
  CHECK(race.ratio(race.of("c"), race.of("a")) == doctest::Approx(0.9));
}

TEST_CASE("tune: a round without an end does not count") {
  Race race{{"a", "b", "c"}};
  race.add(0, 10);
  race.add(1, 20);
  race.abandon_round();  // the first: better than nothing
  CHECK(winner(race) == "a");
  CHECK_FALSE(race.of("c").in);
  race.end_round();
  race.add(1, 1);
  race.abandon_round();
  CHECK(winner(race) == "a");
  CHECK(race.of("b").times.size() == 1);
}

TEST_CASE("tune: the one that is kept runs to the end") {
  Race race{{"a", "b"}, "chosen"};
  run_race(race, [](const std::string& name, int) { return name == "chosen" ? 500.0 : name == "a" ? 10.0 : 90.0; });
  CHECK(race.of("chosen").times.size() >= static_cast<std::size_t>(Race::enough_rounds));
  CHECK(race.wins(race.of("a"), race.of("chosen")).shows_winner());
}

TEST_CASE("tune: candidates are the catalogue's, with message sizes where there is more than one message") {
  const Candidates four{Collective::all_reduce, 4};
  for (const char* name : {"ring", "direct", "direct_two_shot", "doubling", "tree:2"}) CHECK(has(four.at(4), name));
  CHECK_FALSE(has(four.at(64 << 10), "ring/16K"));  // the parts are no larger
  CHECK(has(four.at(64 << 10), "tree:2/16K"));
  CHECK(has(four.at(128 << 10), "ring/16K"));
  CHECK_FALSE(has(four.at(64 << 20), "tree:2/16K"));  // thousands
  CHECK(four.neighbours("ring/64K", 1 << 20) == Names{"ring/32K", "ring/128K"});
  CHECK(four.neighbours("ring/128K", 1 << 20) == Names{"ring/64K"});
  CHECK(four.neighbours("ring/8K", 1 << 20) == Names{"ring/16K"});
  CHECK(four.neighbours("ring", 1 << 20).empty());
  CHECK(four.neighbours("circulant", 1 << 20).empty());
}

TEST_CASE("tune: on GPUs calls may be staged, and ranks that share one have nothing else beside a leader") {
  const Names led = Candidates{Collective::all_reduce, 4, "cuda_leader"}.at(1 << 20);
  for (const char* name : {"direct", "direct_two_shot", "all_pairs", "staged"}) CHECK(has(led, name));
  for (const char* name : {"ring", "doubling", "tree:2"}) CHECK_FALSE(has(led, name));
  CHECK(Candidates{Collective::all_gather, 4, "cuda_leader"}.at(4) == Names{"direct", "staged"});
  CHECK(Candidates{Collective::scan, 4, "cuda_leader"}.at(4) == Names{"staged"});
  const Candidates peers{Collective::all_reduce, 4, "cuda_peers"};
  for (const char* name : {"ring/64K", "direct", "direct_two_shot", "staged"}) CHECK(has(peers.at(1 << 20), name));
  CHECK(peers.neighbours("staged", 1 << 20).empty());
  const Names links = Candidates{Collective::all_reduce, 4, "cuda_ipc"}.at(1 << 20);
  CHECK(has(links, "direct"));
  CHECK_FALSE(has(links, "staged"));
  CHECK_FALSE(has(Candidates{Collective::all_reduce, 4}.at(1 << 20), "staged"));
}

TEST_CASE("tune: which kinds of GPUs so many ranks have") {
  using Words = std::vector<std::string>;
  const Gpus two{.count = 2};
  CHECK(kinds_of({}, 2, two) == Words{"cuda_peers"});
  CHECK(kinds_of({}, 3, two) == Words{"cuda_leader"});
  CHECK(kinds_of({}, 17, two) == Words{"cuda_ipc"});
  CHECK(kinds_of(Words{"cuda_ipc", "cuda_leader"}, 2, two) == Words{"cuda_ipc", "cuda_leader"});
  CHECK_THROWS_WITH(
      kinds_of(Words{"cuda_peers"}, 3, two),
      doctest::Contains("cuda_peers needs a GPU for each of 3 ranks, and there are 2: give fewer ranks (-g)"));
  CHECK_THROWS_WITH(kinds_of(Words{"cuda_leader"}, 17, two),
                    doctest::Contains("cuda_leader is for up to 16 ranks, not 17"));
  // Ranks that each could have a GPU share the first one.
  CHECK(gpu_of_rank("cuda_leader", 1, 2, 2) == 0);
  CHECK(gpu_of_rank("cuda_leader", 1, 3, 2) == 1);
  CHECK(gpu_of_rank("cuda_peers", 1, 2, 2) == 1);
}

TEST_CASE("tune: of equal plans one is tried, but for what has a faster way by its name") {
  const Names two = Candidates{Collective::broadcast, 2}.at(4);
  CHECK(has(two, "tree:2"));
  CHECK_FALSE(has(two, "chain"));
  CHECK(has(two, "direct"));
  CHECK(has(Candidates{Collective::broadcast, 5}.at(4), "chain"));
  CHECK(has(Candidates{Collective::broadcast, 5}.at(4), "tree:4"));
  CHECK_FALSE(has(two, "tree:4"));
}

TEST_CASE("tune: races of several processes are taken together") {
  const auto race_with = [](const std::map<std::string, double>& times) {
    Names names;
    for (const auto& one : times) names.push_back(one.first);
    Race race{names};
    run_race(race, [&](const std::string& name, int) { return times.at(name); });
    return race;
  };
  const std::vector<Race> races{race_with({{"a", 10}, {"b", 11}, {"c", 25}, {"d", 10}}),
                                race_with({{"a", 20}, {"b", 20}, {"d", 24}})};
  const Measured all = together(races);
  CHECK(all.ratio_of("a") == doctest::Approx(1));
  CHECK(all.ratio_of("b") == doctest::Approx(std::sqrt(1.1)));
  CHECK(all.ratio_of("c") == doctest::Approx(2.5));
  CHECK(all.ratio_of("d") == doctest::Approx(std::sqrt(1.2)));
  CHECK(all.microseconds == doctest::Approx(std::sqrt(10.0 * 20)));
  CHECK(all.rounds == races[0].rounds() + races[1].rounds());
}

TEST_CASE("tune: one look says nothing") {
  Race race{{"a"}};
  race.add(0, 10);
  race.end_round();
  CHECK(together(std::vector<Race>{race}).rounds == 0);
  race.add(0, 10);
  race.end_round();
  CHECK(together(std::vector<Race>{race}).rounds == 2);
}

TEST_CASE("tune: switch points lie where the curves cross") {
  const std::vector<Measured> points{
      point(1 << 10, {{"a", 1}, {"b", 2}}, "a"), point(4 << 10, {{"a", 1}, {"b", 1.5}}, "a"),
      point(64 << 10, {{"a", 1.5}, {"b", 1}}, "a"), point(1 << 20, {{"a", 3}, {"b", 1}}, "a")};
  CHECK(told(fit(points)) == "a to 16K, b");
  CHECK(segment_at(fit(points), 16 << 10).algorithm == "a");
  CHECK(segment_at(fit(points), (16 << 10) + 1).algorithm == "b");
}

TEST_CASE("tune: three per cent change nothing") {
  std::vector<Measured> points;
  for (std::size_t i = 0; i < 8; ++i) {
    const bool even = i % 2 == 0;
    points.push_back(point(std::size_t{4} << (2 * i), {{"a", even ? 1 : 1.03}, {"b", even ? 1.03 : 1}}, "a"));
  }
  CHECK(told(fit(points)) == "a");
  for (Measured& one : points) one.builtin = "b";
  CHECK(told(fit(points)) == "b");
}

TEST_CASE("tune: a clear gain at a single size is taken") {
  std::vector<Measured> points;
  for (std::size_t i = 0; i < 5; ++i)
    points.push_back(point(std::size_t{1} << (10 + 2 * i), {{"a", i == 2 ? 1.4 : 1}, {"b", i == 2 ? 1 : 1.4}}, "a"));
  CHECK(told(fit(points)) == "a to 8K, b to 32K, a");
}

TEST_CASE("tune: few rounds are thin evidence against the built-in table") {
  std::vector<Measured> points{point(1 << 10, {{"a", 1.07}, {"b", 1}}, "a")};
  CHECK(told(fit(points)) == "b");
  points[0].rounds = 4;
  CHECK(told(fit(points)) == "a");
}

TEST_CASE("tune: switch points are numbers that people can read") {
  const auto between = [](double ahead, double behind) {
    return told(fit(std::vector<Measured>{point(1 << 20, {{"a", 1}, {"b", ahead}}, "a"),
                                          point(4 << 20, {{"a", behind}, {"b", 1}}, "a")}));
  };
  CHECK(between(1.01, 4) == "a to 1M, b");
  CHECK(between(2, 2) == "a to 2M, b");
  CHECK(between(2, 1.5) == "a to 2M, b");
  CHECK(between(4, 1.2) == "a to 3M, b");
}

TEST_CASE("tune: what left early is not chosen for want of a number") {
  const std::vector<Measured> points{point(1 << 10, {{"a", 1}, {"b", 1.2}}, "a"), point(1 << 20, {{"b", 1}}, "b")};
  CHECK(told(fit(points)) == "a to 32K, b");
  CHECK(fit({}).empty());
}

TEST_CASE("tune: who is far behind and does not catch up is left out at larger sizes") {
  CHECK(is_worth_a_try(std::vector<double>{}));
  CHECK(is_worth_a_try(std::vector<double>{9}));
  CHECK(is_worth_a_try(std::vector<double>{9, 5}));
  CHECK(is_worth_a_try(std::vector<double>{3, 1.9}));
  CHECK_FALSE(is_worth_a_try(std::vector<double>{3, 2.9}));
  CHECK_FALSE(is_worth_a_try(std::vector<double>{3, 4}));
}

}  // namespace
