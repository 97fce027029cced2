// What tutti tune writes and says, on measurements that are made up: the table, what changes, what a choice loses.

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "algorithms/select.h"
#include "cli/tune/fit.h"
#include "cli/tune/lines.h"
#include "cli/tune/order.h"
#include "cli/tune/regret.h"
#include "cli/tune/table.h"
#include "cli/tune/tournament.h"
#include "tests/cli/races.h"
#include "tests/support/scratch.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::cli::tune;

namespace {

Regret regret(const std::string& transport, int ranks, std::size_t bytes, double microseconds) {
  Regret one;
  one.collective = "all_reduce";
  one.transport = transport;
  one.ranks = ranks;
  one.bytes = bytes;
  one.chosen = one.best = "ring";
  one.chosen_us = one.best_us = microseconds;
  one.rounds = 9;
  one.sure = true;
  return one;
}

std::vector<Curve> three_curves() {
  const auto points = [](const std::string& small, const std::string& large) {
    return std::vector<Measured>{point(4, {{small, 1}, {large, 2}}, small),
                                 point(3000, {{small, 1}, {large, 1.1}}, small),
                                 point(1 << 20, {{small, 2}, {large, 1}}, small)};
  };
  return {{Collective::all_reduce, "shm", 2, false, points("direct", "ring*4")},
          {Collective::all_reduce, "shm", 4, true, points("doubling", "tree:2*64")},
          {Collective::all_reduce, "shm", 8, true, points("circulant", "chain*8")},
          {Collective::barrier, "tcp", 8, true, {point(0, {{"dissemination", 1}}, "dissemination")}}};
}

TEST_CASE("tune: a line for several numbers of ranks leaves the domains to each job") {
  const auto points = [](const std::string& name) { return std::vector<Measured>{point(8, {{name, 1}}, name)}; };
  const std::vector<Curve> curves{{Collective::all_reduce, "shm", 8, false, points("ring")},
                                  {Collective::all_reduce, "shm", 16, false, points("hierarchical:8+8")}};
  const std::string text = table_text(curves, {});
  CHECK(text.find("hierarchical          core-per-rank domains\n") != std::string::npos);
  algorithms::Situation situation{.collective = Collective::all_reduce, .ranks = 12, .bytes = 8, .transport = "shm"};
  const algorithms::TuningTable table = algorithms::TuningTable::parse(text, "t");
  for (const int ranks : {12, 16}) {
    situation.ranks = ranks;
    situation.domains.assign(static_cast<std::size_t>(ranks), 0);
    situation.domains.back() = 1;
    CHECK(to_string(table.select(situation)) == (ranks == 12 ? "hierarchical:11+1" : "hierarchical:15+1"));
  }
}

TEST_CASE("tune: the name of an algorithm with many domains reaches the ranks, and a longer one is refused") {
  std::string name = "hierarchical:0";
  for (int rank = 2; rank < 64; rank += 2) name += "." + std::to_string(rank);
  Order order;
  order.add(name, 1, 1);
  CHECK(order.turns[0].algorithm == name);
  CHECK_THROWS_WITH_AS(order.add(std::string(name_room, 'a'), 1, 1), doctest::Contains("has more than 1023 letters"),
                       Error);
}

TEST_CASE("tune: lines for GPUs hold for any number of cores, and may say staged") {
  const std::vector<Curve> curves{
      {Collective::all_reduce,
       "cuda_leader",
       2,
       false,
       {point(4, {{"staged", 1}, {"direct", 2}}, "direct"), point(1 << 20, {{"staged", 2}, {"direct", 1}}, "direct")}}};
  const std::string text = table_text(curves, {});
  CHECK(text.find("staged\n") != std::string::npos);
  CHECK(text.find("core") == std::string::npos);
  const algorithms::TuningTable table = algorithms::TuningTable::parse(text, "t");
  for (const bool oversubscribed : {false, true}) {
    algorithms::Situation situation{.collective = Collective::all_reduce,
                                    .ranks = 2,
                                    .bytes = 4,
                                    .transport = "cuda_leader",
                                    .oversubscribed = oversubscribed};
    CHECK(table.stages(situation));
    situation.bytes = 1 << 20;
    CHECK_FALSE(table.stages(situation));
    CHECK(to_string(table.select(situation)) == "direct");
  }
}

TEST_CASE("tune: the table that is written is read back equal") {
  const std::vector<Curve> curves = three_curves();
  const algorithms::TuningTable table = algorithms::TuningTable::parse(table_text(curves, {"a comment"}), "t");
  for (const Curve& curve : curves)
    for (const std::size_t bytes :
         {0UL, 4UL, 3000UL, 4096UL, 20000UL, 65536UL, 98304UL, 98305UL, 1UL << 20, (1UL << 20) + 1, 1UL << 40}) {
      std::string why;
      const algorithms::Situation situation{.collective = curve.collective,
                                            .ranks = curve.ranks,
                                            .bytes = bytes,
                                            .transport = curve.transport,
                                            .oversubscribed = curve.oversubscribed};
      const algorithms::Choice choice = table.select(situation, &why);
      CAPTURE(why);
      const bool is_measured = bytes <= curve.points.back().bytes;
      CHECK((why.find("no line of t") == std::string::npos) == is_measured);
      if (is_measured) CHECK(to_string(choice) == segment_at(fit(curve.points), bytes).algorithm);
    }
}

TEST_CASE("tune: no line is for sizes below or above those measured") {
  const Curve curve{Collective::all_reduce, "tcp", 4, false, {point(1 << 16, {{"ring", 1}}, "ring")}};
  const std::string text = table_text(std::vector<Curve>{curve}, {});
  CAPTURE(text);
  CHECK(text.find("all_reduce      tcp        4       64K        ring") != std::string::npos);
}

TEST_CASE("tune: a number of ranks stands for those up to its neighbours, on hosts as crowded") {
  const std::string text = table_text(three_curves(), {});
  const algorithms::TuningTable table = algorithms::TuningTable::parse(text, "t");
  const auto chosen = [&](int ranks, bool crowded) {
    return to_string(table.select({.collective = Collective::all_reduce,
                                   .ranks = ranks,
                                   .bytes = 4,
                                   .transport = "shm",
                                   .oversubscribed = crowded}));
  };
  CAPTURE(text);
  CHECK(chosen(2, false) == "direct");
  CHECK(chosen(5, true) == "doubling");
  CHECK(chosen(6, true) == "circulant");
  for (const int beyond : {2, 3, 9}) {
    std::string why;
    (void)table.select(
        {.collective = Collective::all_reduce, .ranks = beyond, .transport = "shm", .oversubscribed = true}, &why);
    CHECK(why.find("no line of t") != std::string::npos);
  }
}

TEST_CASE("tune: between two measured numbers of ranks each has its half") {
  const auto curve = [](int ranks, const std::string& name) {
    return Curve{Collective::all_reduce, "tcp", ranks, true, {point(4, {{name, 1}}, name)}};
  };
  const std::string text = table_text(std::vector<Curve>{curve(4, "ring"), curve(16, "chain")}, {});
  CAPTURE(text);
  CHECK(text.find(" 4-8 ") != std::string::npos);
  CHECK(text.find(" 9-16 ") != std::string::npos);
}

TEST_CASE("tune: changes are told with what they gain") {
  const std::string text = changes_text(three_curves());
  CAPTURE(text);
  CHECK(text.find("all_reduce     shm    2 ranks     1M  direct -> ring*4: 20.0 -> 10.0 us, 2.00 times as fast") !=
        std::string::npos);
  CHECK(text.find("3 of 10 points change; there a call should take 1/2.00") != std::string::npos);
  CHECK(changes_text({}).find("all of 0 points") != std::string::npos);
}

TEST_CASE("tune: lines that decide no call are told, also where others are in front of them") {
  const auto table = algorithms::TuningTable::parse(
      "all_reduce tcp 2-4 4K-8K ring\n"
      "all_reduce tcp 2 5K-6K tree core-per-rank\n"
      "all_reduce tcp 2 7K-9K tree core-per-rank\n"
      "all_reduce shm 2 * ring\n"
      "all_reduce tcp 4 * chain core-per-rank\n"
      "all_reduce tcp 16 * hierarchical domains\n",
      "t");
  CHECK(lines_text(table, "t", std::vector<Place>{{"tcp", 2, false}, {"tcp", 4, true}}) ==
        "# t has 6 lines, 2 of which decide calls here\n"
        "# t:2 decides no call here: all_reduce tcp 2 5K-6K tree core-per-rank\n"
        "# t:4 decides no call here: all_reduce shm 2 * ring\n"
        "# t:5 decides no call here: all_reduce tcp 4 * chain core-per-rank\n");
}

std::string content(const std::string& path) {
  std::ifstream file{path};
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("tune: a table is written whole or not at all, and over another one only by force") {
  const testing::Folder folder;
  const std::string path = folder.name + "/my.tuning";
  write_table(path, "first\n", false);
  CHECK(content(path) == "first\n");
  CHECK_THROWS_AS(write_table(path, "second\n", false), Error);
  CHECK(content(path) == "first\n");
  write_table(path, "third\n", true);
  CHECK(content(path) == "third\n");
  CHECK_THROWS_AS(write_table(folder.name + "/nowhere/my.tuning", "x", true), Error);
  CHECK(std::distance(std::filesystem::directory_iterator{folder.name}, {}) == 1);
}

TEST_CASE("tune: regret is what the choice loses to one that is faster in most rounds") {
  Race race{{"fast", "lucky", "second"}, "chosen"};
  run_race(race, [](const std::string& name, int round) {
    if (name == "second") return 10.3;
    if (name == "lucky") return round % 2 == 0 ? 9.0 : 13.0;
    return name == "fast" ? 10.0 : 12.0;
  });
  Regret one = regret("shm", 2, 4, 0);
  one.chosen = "chosen";
  judge(std::vector<Race>{race}, one);
  CHECK(one.best == "fast");
  CHECK(one.regret == doctest::Approx(0.2));
  CHECK(one.chosen_us == doctest::Approx(12));
  CHECK(one.best_us == doctest::Approx(10));
  CHECK(one.sure);
}

TEST_CASE("tune: who is faster in one race only is not better") {
  const auto race_with = [](double other, double always) {
    Race race{{"other", "always"}, "chosen"};
    run_race(race, [&](const std::string& name, int) {
      return name == "chosen" ? 10 : name == "other" ? other : always;
    });
    return race;
  };
  Regret one = regret("shm", 2, 4, 0);
  one.chosen = "chosen";
  one.rounds = 0;
  judge(std::vector<Race>{race_with(8, 8.2), race_with(10.2, 9.8)}, one);
  CHECK(one.best == "always");
  CHECK(one.regret == doctest::Approx(std::sqrt(10 / 8.2 * 10 / 9.8) - 1));
  CHECK(one.rounds > 2 * Race::enough_rounds);
}

TEST_CASE("tune: the best choice regrets nothing") {
  Race race{{"a", "b"}, "chosen"};
  run_race(race, [](const std::string& name, int) { return name == "chosen" ? 10.0 : 50.0; });
  Regret one = regret("shm", 2, 4, 0);
  one.chosen = "chosen";
  judge(std::vector<Race>{race}, one);
  CHECK(one.best == "chosen");
  CHECK(one.regret == 0);
  CHECK(one.sure);
}

TEST_CASE("tune: a choice that has beaten all in one race needs no rounds of the next, where it runs alone") {
  const auto run_once = [](Race& race) {
    for (const std::size_t i : race.order()) race.add(i, race.entrants()[i].name == "chosen" ? 10 : 50);
    race.end_round();
  };
  Race first{{"a", "b"}, "chosen"};
  run_once(first);
  Regret one = regret("shm", 2, 4, 0);
  one.chosen = "chosen";
  one.rounds = 0;
  Race second{{}, "chosen"};
  run_once(second);
  CHECK(second.over());
  judge(std::vector<Race>{first, second}, one);
  CHECK_FALSE(one.sure);
  run_once(first);
  CHECK(first.over());
  one.rounds = 0;
  judge(std::vector<Race>{first, second}, one);
  CHECK(one.sure);
}

TEST_CASE("tune: a cliff is a time far above that of more bytes, or of more ranks") {
  std::vector<Regret> all{regret("shm", 2, 4, 131),   regret("shm", 2, 1024, 100), regret("shm", 2, 65536, 77.1),
                          regret("shm", 4, 4, 65),    regret("shm", 4, 1024, 66),  regret("tcp", 2, 65536, 1),
                          regret("tcp", 4, 65536, 9), regret("tcp", 8, 65536, 4.5)};
  const std::vector<Cliff> found = cliffs(all);
  REQUIRE(found.size() == 2);
  CHECK(found[0].dear == &all[0]);
  CHECK(found[0].next == &all[1]);
  CHECK(found[1].dear == &all[0]);
  CHECK(found[1].next == &all[3]);
  CHECK(found[1].ratio == doctest::Approx(131.0 / 65));
  const std::string text = regret_text(all);
  CAPTURE(text);
  CHECK(text.find("cliff: all_reduce shm: 4 by 2 ranks takes 131.0 us, 1.31 times 1K by 2 ranks (100.0 us)") !=
        std::string::npos);
  all[0].sure = false;
  CHECK(cliffs(all).empty());
  CHECK(regret_text(all).find("no cliffs") != std::string::npos);
  CHECK(regret_text(all).find("1 points with \"?\"") != std::string::npos);
}

TEST_CASE("tune: worst and mean leave out what is not sure") {
  std::vector<Regret> all{regret("shm", 2, 4, 1), regret("shm", 4, 4, 1), regret("shm", 8, 4, 1)};
  all[0].regret = 0.1;
  all[1].regret = 0.3;
  all[2].regret = 9;
  all[2].sure = false;
  const std::string text = regret_text(all);
  CAPTURE(text);
  CHECK(text.find("regret: mean 20.0 %, worst 30.0 % (all_reduce shm, 4 ranks, 4), over 2 points") !=
        std::string::npos);
  CHECK(regret_csv(all).find("all_reduce,shm,4,4,ring,1.000,ring,1.000,0.3000,9,1\n") != std::string::npos);
}

}  // namespace
