// The simulator against formulas, against the checker's count of rounds, and one of its engines against the other.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "algorithms/check.h"
#include "algorithms/families.h"
#include "cli/simulate/bound.h"
#include "cli/simulate/events.h"
#include "cli/simulate/network.h"
#include "cli/simulate/regret.h"
#include "cli/simulate/runs.h"
#include "cli/simulate/sweep.h"
#include "cli/simulate/symmetry.h"
#include "tests/support/sample.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

SimulatedCall simulated(Collective collective, const std::string& name, int ranks, std::size_t bytes, int root = 0) {
  return {collective, settled(algorithms::find(collective, name), ranks, bytes), ranks, root, bytes};
}

/// All ranks equally far from each other: 3 us, 1 GB/s, additions at 2 GB/s.
Network uniform(double latency_us = 3, const char* bandwidth = "1GB/s", const char* reduce = "2GB/s") {
  std::string text = "name one switch\nreduce " + std::string{reduce} + "\ncopy unlimited\n";
  for (const char* distance : {"socket", "host", "leaf", "far"})
    text += "link " + std::string{distance} + " " + std::to_string(latency_us) + "us 0ns " + bandwidth + "\n";
  return NetworkFile::parse(text, "test").for_algorithm("");
}

/// Hosts of 4 ranks with one port, pairs of them below a switch, all distances and sizes of messages different.
Network uneven() {
  return NetworkFile::parse(R"(
name uneven
socket 2
host 4
leaf 8
start 1us
reduce 3GB/s
copy 5GB/s
link socket 0.31us 0.02us 9GB/s
link host 0.53us 0.03us 7GB/s
link leaf 2.3us 0.11us 3GB/s
link leaf from 4K 3.1us 0.2us 5GB/s
link far 2.9us 0.17us 2GB/s
shared host 2.5GB/s
)",
                            "test")
      .for_algorithm("");
}

double microseconds(const Result& result) { return result.seconds * 1e6; }
int log_up(int n) {
  int steps = 0;
  while ((1 << steps) < n) ++steps;
  return steps;
}

TEST_CASE("a ring takes 2(n-1) hops of its part, and adds it up in half of them") {
  for (const int n : {2, 3, 8, 96, 512}) {
    if (n > 100 && tutti::testing::only_a_sanitized_sample()) continue;
    CAPTURE(n);
    const std::size_t part = 64 * 1024;
    const double hop = 3 + 65.536, reduction = 65.536 / 2;
    const SimulatedCall ring = simulated(Collective::all_reduce, "ring", n, part * static_cast<std::size_t>(n));
    const double expected = 2 * (n - 1) * hop + (n - 1) * reduction;
    const auto swept = run_sweep(ring, uniform());
    REQUIRE(swept);
    CHECK(microseconds(*swept) == doctest::Approx(expected).epsilon(1e-9));
    CHECK(swept->messages == 2.0 * n * (n - 1));
    const auto ran = run_events(ring, uniform());
    REQUIRE(ran);
    CHECK(microseconds(*ran) == doctest::Approx(expected).epsilon(1e-9));
  }
}

TEST_CASE("every message is told, with its step, and when it went and was there") {
  const SimulatedCall chain = simulated(Collective::broadcast, "chain", 4, 4000);
  std::vector<SimulatedMessage> messages;
  const auto ran = run_events(chain, uniform(), &messages);
  REQUIRE(messages.size() == static_cast<std::size_t>(ran->messages));
  std::sort(messages.begin(), messages.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  const double hop = 7e6;  // 3 us and 4000 bytes at 1 GB/s, in picoseconds
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const SimulatedMessage& message = messages[i];
    CHECK(message.from == static_cast<int>(i));
    CHECK(message.to == message.from + 1);
    const algorithms::Step step = chain.plan(message.from).steps[message.step];
    CHECK(step.verb == algorithms::Verb::send);
    CHECK(step.peer == message.to);
    CHECK(message.begin == doctest::Approx(hop * static_cast<double>(i)));
    CHECK(message.end == doctest::Approx(hop * static_cast<double>(i + 1)));
  }
}

TEST_CASE("messages without bytes are not sent, except those of a barrier") {
  // Two elements are two parts with bytes, of 16. Each rank sends a part to its owner, who sends the sum to all.
  const SimulatedCall tiny = simulated(Collective::all_reduce, "direct_two_shot", 16, 8);
  std::vector<SimulatedMessage> messages;
  const auto ran = run_events(tiny, uniform(), &messages);
  CHECK(ran->messages == 2 * 2 * 15);
  CHECK(messages.size() == 2 * 16 * 15);  // the others are told, too, with the moment at which they were left out
  const auto lasts = [](const SimulatedMessage& one) { return one.end > one.begin; };
  CHECK(std::count_if(messages.begin(), messages.end(), lasts) == 2 * 2 * 15);
  CHECK(run_events(simulated(Collective::barrier, "dissemination", 16, 0), uniform())->messages == 16 * 4);
  const auto swept = run_sweep(simulated(Collective::all_reduce, "ring", 16, 8), uniform());
  REQUIRE(swept);
  CHECK(swept->messages == 2 * 2 * 15);
}

TEST_CASE("a ring over unequal hops goes at their mean") {
  const Network summit = NetworkFile::open("summit").for_algorithm("ring");
  for (const int n : {96, 768, 3072}) {
    if (n > 1000 && tutti::testing::only_a_sanitized_sample()) continue;
    const auto found = run_sweep(simulated(Collective::all_reduce, "ring", n, 8), summit);
    REQUIRE(found);
    CHECK(microseconds(*found) == doctest::Approx(11.1 + 2 * (n - 1) * 0.877).epsilon(0.01));
  }
}

TEST_CASE("trees take their depth, chains their length") {
  for (const int n : {2, 5, 16, 100, 1000}) {
    CAPTURE(n);
    const auto time = [&](Collective collective, const std::string& name) {
      const auto found = run_events(simulated(collective, name, n, 4), uniform(3, "unlimited", "unlimited"));
      REQUIRE(found);
      return microseconds(*found);
    };
    int deepest = 0;  // a rank lies below one other for each bit of its number
    for (unsigned rank = 0; rank < static_cast<unsigned>(n); ++rank) deepest = std::max(deepest, std::popcount(rank));
    CHECK(time(Collective::broadcast, "tree:2") == doctest::Approx(3.0 * deepest));
    CHECK(time(Collective::broadcast, "chain") == doctest::Approx(3.0 * (n - 1)));
    CHECK(time(Collective::broadcast, "direct") == doctest::Approx(3.0));
    CHECK(time(Collective::barrier, "dissemination") == doctest::Approx(3.0 * log_up(n)));
  }
}

TEST_CASE("a root that sends to all sends one after the other") {
  for (const int n : {2, 9, 64}) {
    const SimulatedCall all = simulated(Collective::broadcast, "direct", n, 1000 * 1000);
    CHECK(microseconds(*run_events(all, uniform())) == doctest::Approx(3 + (n - 1) * 1000.0));
    const SimulatedCall back = simulated(Collective::gather, "direct", n, 1000 * 1000 * static_cast<std::size_t>(n));
    CHECK(microseconds(*run_events(back, uniform())) == doctest::Approx(3 + (n - 1) * 1000.0));
  }
}

TEST_CASE("where only latency counts every algorithm takes as many of them as the checker counts rounds") {
  const Network latency = uniform(3, "unlimited", "unlimited");
  tutti::testing::Lot lot{1, 4};
  for (const algorithms::Entry& entry : algorithms::catalogue())
    for (int n = 1; n <= 20; ++n)
      for (const int pipeline : {1, 3}) {
        if ((pipeline > 1 && !entry.has_pipeline) || (n > 8 && !lot.draws())) continue;
        const int root = n / 2;
        const auto verdict = algorithms::check(entry, n, root, pipeline, 2);
        REQUIRE(verdict.ok());
        const auto found = run_events({entry.collective, {&entry, 2, pipeline}, n, root, 4096}, latency);
        REQUIRE(found);
        CAPTURE(std::string{entry.name});
        CAPTURE(n);
        CHECK(found->messages == static_cast<double>(verdict.messages));
        CHECK(microseconds(*found) == doctest::Approx(3.0 * verdict.rounds));
      }
}

TEST_CASE("swept and event by event are the same, to the picosecond, whatever the algorithm") {
  const Network networks[] = {uniform(), uneven(), NetworkFile::open("summit").for_algorithm("ring"),
                              NetworkFile::open("100g").for_algorithm("ring")};
  tutti::testing::Lot lot{1, 8};
  tutti::testing::Lot few{1, 4};
  for (const Network& network : networks)
    for (const algorithms::Entry& entry : algorithms::catalogue())
      for (const int pipeline : {1, 4})
        for (const int n : {1, 2, 3, 5, 8, 16, 23, 40}) {
          if ((pipeline > 1 && !entry.has_pipeline) || !(n > 8 ? lot : few).draws()) continue;
          for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{3000000}}) {
            const SimulatedCall one{entry.collective, {&entry, 2, pipeline}, n, n - 1, bytes};
            const auto swept = run_sweep(one, network);
            if (!swept) {
              CHECK(entry.name != "ring");  // for which it was made
              continue;
            }
            const auto ran = run_events(one, network);
            REQUIRE(ran);
            CAPTURE(std::string{entry.name});
            CAPTURE(network.name);
            CAPTURE(n);
            CAPTURE(bytes);
            CHECK(swept->seconds == ran->seconds);
            CHECK(swept->messages == ran->messages);
          }
        }
}

TEST_CASE("plans that are no rotations of each other are not swept") {
  CHECK_FALSE(run_sweep(simulated(Collective::all_reduce, "tree:2", 16, 8), uniform()));
  CHECK_FALSE(run_sweep(simulated(Collective::all_reduce, "chain", 16, 8), uniform()));
  CHECK_FALSE(run_sweep(simulated(Collective::all_to_all, "pairwise", 9, 900), uniform()));  // competes for ports
}

algorithms::Plan crooked_peer(const algorithms::Shape& shape) {
  algorithms::Plan plan = algorithms::ring_all_reduce(shape);
  if (shape.rank == 5) plan.steps[2].peer = 0;
  return plan;
}
algorithms::Plan crooked_block(const algorithms::Shape& shape) {
  algorithms::Plan plan = algorithms::ring_all_reduce(shape);
  if (shape.rank == 5) plan.steps[2].left.first = 0;
  return plan;
}
algorithms::Plan crooked_order(const algorithms::Shape& shape) {
  algorithms::Plan plan = algorithms::ring_all_reduce(shape);
  if (shape.rank == 5) ++plan.waits_for[2];
  return plan;
}

TEST_CASE("a ring with one crooked step at one rank is no rotation") {
  const auto rotates = [](algorithms::Builder builder) {
    algorithms::Entry entry = *algorithms::find(Collective::all_reduce, "ring").entry;
    entry.build = builder;
    return find_rotation({Collective::all_reduce, {&entry}, 8, 0, 8000}).has_value();
  };
  CHECK(rotates(algorithms::ring_all_reduce));
  CHECK_FALSE(rotates(crooked_peer));
  CHECK_FALSE(rotates(crooked_block));
  CHECK_FALSE(rotates(crooked_order));
}

TEST_CASE("ranks of a host that share a link wait for each other") {
  const std::string text = R"(
name two hosts
socket 4
host 4
leaf 8
link socket 1us 0ns 1GB/s
link host 1us 0ns 1GB/s
link leaf 1us 0ns 1GB/s
link far 1us 0ns 1GB/s
)";
  // All four of one host exchange parts of 1 MB with all four of the other, which a shared link serves one by one.
  const SimulatedCall all = simulated(Collective::all_to_all, "direct", 8, 8 * 1000 * 1000);
  const Network apart = NetworkFile::parse(text, "test").for_algorithm("");
  const Network shared = NetworkFile::parse(text + "shared host 1GB/s\n", "test").for_algorithm("");
  CHECK(microseconds(*run_events(all, apart)) < 9000);
  CHECK(microseconds(*run_events(all, shared)) > 16000);
  CHECK(microseconds(*run_events(all, shared)) < 20000);
  // In a ring one rank only crosses, and nobody has to wait.
  const SimulatedCall ring = simulated(Collective::all_reduce, "ring", 8, 8 * 1000 * 1000);
  CHECK(microseconds(*run_events(ring, shared)) == doctest::Approx(microseconds(*run_events(ring, apart))));
}

TEST_CASE("a job that is too large for every method is refused before it begins") {
  const SimulatedCall all = simulated(Collective::all_to_all, "direct", 20000, 20000 * 8);
  CHECK_THROWS_WITH_AS(simulate(all, uniform()), doctest::Contains("20000 ranks"), Error);
  // Even the plan of one rank would take gigabytes.
  const SimulatedCall ring = simulated(Collective::all_reduce, "ring*4096", 24576, 8);
  CHECK_THROWS_WITH_AS(simulate(ring, uniform()), doctest::Contains("ring*4096 over 24576 ranks has more than"), Error);
  const SimulatedCall tree = simulated(Collective::all_reduce, "tree:24576*4096", 24576, 8);
  CHECK_THROWS_WITH_AS(simulate(tree, uniform()), doctest::Contains("tree:24576*4096 over 24576 ranks has more than"),
                       Error);
}

TEST_CASE("an algorithm passed over for its least time is never the fastest") {
  const NetworkFile file = NetworkFile::open("100g");
  const auto table = algorithms::TuningTable::parse(
      "all_reduce * * * direct\nall_gather * * * direct\nbroadcast * * * direct\n", "test");
  for (const Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::broadcast})
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20}) {
      const Regret found = regret(table, collective, {24}, {bytes}, file).at(0);
      for (const algorithms::Entry& entry : algorithms::catalogue(collective)) {
        const algorithms::Choice choice = settled(algorithms::find(collective, entry.name), 24, bytes);
        const SimulatedCall one{collective, choice, 24, 0, bytes};
        const Network network = file.for_algorithm(entry.name);
        const double seconds = simulate(one, network).result.seconds;
        CAPTURE(to_string(choice));
        CHECK(least_time(one, network) <= seconds);
        CHECK(found.best_time <= seconds);
      }
    }
}

TEST_CASE("no run takes less than its least time where sends are followed by gaps of different lengths") {
  const Network network = NetworkFile::parse(R"(
name unequal gaps
leaf 2
reduce unlimited
copy unlimited
link socket 1us 5us 1GB/s
link host 1us 5us 1GB/s
link leaf 1us 0us 1GB/s
link far 1us 5us 1GB/s
)",
                                             "test")
                              .for_algorithm("");
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20})
    for (const std::string name : {"tree:2", "tree:4", "direct", "chain"})
      for (const int ranks : {2, 3, 4, 7}) {
        const SimulatedCall one = simulated(Collective::broadcast, name, ranks, bytes);
        CAPTURE(name);
        CAPTURE(ranks);
        CHECK(least_time(one, network) <= simulate(one, network).result.seconds);
      }
}

TEST_CASE("regret is none where the table chooses the best, and what is lost where it does not") {
  const NetworkFile file = NetworkFile::open("100g");
  const auto of = [&](const char* choice) {
    const auto table = algorithms::TuningTable::parse(std::string{"all_reduce * * * "} + choice, "test");
    return regret(table, Collective::all_reduce, {64}, {8}, file).at(0);
  };
  const Regret bad = of("ring");
  CHECK(bad.best_time < bad.chosen_time);
  const Regret good = of(to_string(bad.best).c_str());
  CHECK(good.chosen_time == bad.best_time);
  CHECK(good.best_time == good.chosen_time);
  CHECK(bad.chosen_time ==
        doctest::Approx(
            simulate(simulated(Collective::all_reduce, "ring", 64, 8), file.for_algorithm("ring")).result.seconds));
}

}  // namespace
}  // namespace tutti::cli::simulate
