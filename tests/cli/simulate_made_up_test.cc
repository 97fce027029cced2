// What no algorithm of the catalogue does, plans made up for it do: who waits at a shared link, and for old steps.

#include <doctest/doctest.h>

#include <string>

#include "algorithms/partition.h"
#include "cli/simulate/events.h"
#include "cli/simulate/network.h"
#include "cli/simulate/sweep.h"

namespace tutti::cli::simulate {
namespace {

using algorithms::Buffer;
using algorithms::Parts;
using algorithms::Plan;
using algorithms::PlanBuilder;
using algorithms::Shape;

constexpr std::size_t megabyte = 1000 * 1000;

/// 1 us and 1 GB/s everywhere, hosts of two ranks, and what `more` says.
Network hosts_of_two(const std::string& more) {
  std::string text = "name hosts of two\nhost 2\nleaf 8\n" + more;
  for (const char* distance : {"socket", "host", "leaf", "far"})
    text += "link " + std::string{distance} + " 1us 0ns 1GB/s\n";
  return NetworkFile::parse(text, "test").for_algorithm("");
}

/// A megabyte for each rank.
struct Made {
  Made(algorithms::Builder builder, int ranks)
      : entry(*algorithms::find(Collective::all_gather, "ring").entry),
        simulated{Collective::all_gather, {&entry}, ranks, 0, static_cast<std::size_t>(ranks) * megabyte} {
    entry.build = builder;
  }
  algorithms::Entry entry;
  SimulatedCall simulated;
};

Plan two_to_one_host(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts output{shape, Buffer::output};
  if (shape.rank == 2) plan.send(0, output[2]);
  if (shape.rank == 0) plan.recv(2, output[2]);
  if (shape.rank == 4) plan.send(1, output[4]);
  if (shape.rank == 1) plan.recv(4, output[4]);
  return std::move(plan).build();
}

TEST_CASE("a shared link is shared by what comes to a host, too, though ranks and senders differ") {
  const Made made{two_to_one_host, 6};
  CHECK(run_events(made.simulated, hosts_of_two(""))->seconds == doctest::Approx(1001e-6));
  CHECK(run_events(made.simulated, hosts_of_two("shared host 1GB/s\n"))->seconds == doctest::Approx(2001e-6));
}

/// Ranks 0 and 1 of the first host send a part each to the second host, to its first and second rank.
Plan one_each(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts output{shape, Buffer::output};
  if (shape.rank < 2) plan.send(shape.rank + 2, output[shape.rank]);
  if (shape.rank == 2 || shape.rank == 3) plan.recv(shape.rank - 2, output[shape.rank - 2]);
  return std::move(plan).build();
}

TEST_CASE("a shared link that is as fast as two ports carries the messages of both at once") {
  const Made made{one_each, 4};
  CHECK(run_events(made.simulated, hosts_of_two("shared host 2GB/s\n"))->seconds == doctest::Approx(1001e-6));
  CHECK(run_events(made.simulated, hosts_of_two("shared host 1500MB/s\n"))->seconds ==
        doctest::Approx(1e-6 + 2e-3 / 1.5));
  CHECK(run_events(made.simulated, hosts_of_two("shared host 500MB/s\n"))->seconds == doctest::Approx(4001e-6));
}

/// Rank 0 sends both parts of the first host to rank 2; half a millisecond later (a copy) rank 1 sends one to rank 3.
Plan partly_at_once(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts output{shape, Buffer::output};
  if (shape.rank == 0) plan.send(2, {Buffer::output, output[0].first, output[0].count + output[1].count});
  if (shape.rank == 2) plan.recv(0, {Buffer::output, output[0].first, output[0].count + output[1].count});
  if (shape.rank == 1) {
    const auto copied = plan.scratch(output[1]);
    plan.copy(copied, output[1]);
    plan.send(3, copied);
  }
  if (shape.rank == 3) plan.recv(1, output[1]);
  return std::move(plan).build();
}

TEST_CASE("unequal messages that are under way at once in part: the link carries the bytes of both, no more") {
  const Made made{partly_at_once, 4};
  const auto time = [&](const char* link) {
    return run_events(made.simulated, hosts_of_two(std::string{"copy 2GB/s\n"} + link))->seconds * 1e6;
  };
  CHECK(time("") == doctest::Approx(2001));                       // 2 MB at 1 GB/s; the other from 500 to 1501
  CHECK(time("shared host 2GB/s\n") == doctest::Approx(2001));    // room for both
  CHECK(time("shared host 1GB/s\n") == doctest::Approx(3001));    // 3 MB
  CHECK(time("shared host 500MB/s\n") == doctest::Approx(6001));  // 3 MB
}

/// Rank 0 has ten messages for the second host, rank 1 one, and another when that was answered.
Plan behind_a_queue(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts output{shape, Buffer::output};
  for (int i = 0; i < 10; ++i) {
    if (shape.rank == 0) plan.send(2, output[0]);
    if (shape.rank == 2) plan.recv(0, output[0]);
  }
  if (shape.rank == 1) plan.send(3, output[1]);
  if (shape.rank == 3) {
    plan.recv(1, output[1]);
    for (int i = 0; i < 7; ++i) plan.send(1, output[1]);
  }
  if (shape.rank == 1)
    for (int i = 0; i < 7; ++i) plan.recv(3, output[1]);
  return std::move(plan).build();
}

TEST_CASE("a message that waits for its port takes nothing yet of the link behind it") {
  const Made made{behind_a_queue, 4};
  CHECK(run_events(made.simulated, hosts_of_two(""))->seconds == doctest::Approx(10001e-6));
  CHECK(run_events(made.simulated, hosts_of_two("shared host 2GB/s\n"))->seconds == doctest::Approx(10001e-6));
}

/// Rank 0 is sent three messages by other hosts at once, for which its port takes three times as long as the link; then
/// its neighbour is sent one, and sends four.
Plan before_a_queue(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts output{shape, Buffer::output};
  for (const int from : {2, 4, 6}) {
    if (shape.rank == from) plan.send(0, output[from]);
    if (shape.rank == 0) plan.recv(from, output[from]);
  }
  if (shape.rank == 3) {
    const auto copied = plan.scratch(output[3]);
    plan.copy(copied, output[3]);
    plan.send(1, copied);
  }
  if (shape.rank == 1) {
    plan.recv(3, output[3]);
    for (int i = 0; i < 4; ++i) plan.send(5, output[3]);
  }
  if (shape.rank == 5)
    for (int i = 0; i < 4; ++i) plan.recv(1, output[3]);
  return std::move(plan).build();
}

TEST_CASE("a message that waits for its receiver's port takes nothing more of the link before it") {
  const Made made{before_a_queue, 8};
  const auto seconds = run_events(made.simulated, hosts_of_two("copy 500MB/s\nshared host 4GB/s\n"))->seconds;
  CHECK(seconds == doctest::Approx(2000e-6 + 5 * 1000e-6 + 2e-6));  // the copy, five messages, two latencies
}

Plan two_ahead(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts output{shape, Buffer::output};
  const int behind = (shape.rank + shape.ranks - 2) % shape.ranks;
  plan.send((shape.rank + 2) % shape.ranks, output[shape.rank]);
  plan.recv(behind, output[behind]);
  return std::move(plan).build();
}

TEST_CASE("messages that meet at a shared link are not swept") {
  const Made made{two_ahead, 8};
  const auto swept = run_sweep(made.simulated, hosts_of_two(""));
  REQUIRE(swept);
  CHECK(swept->seconds == doctest::Approx(1001e-6));
  const Network shared = hosts_of_two("shared host 1GB/s\n");
  CHECK_FALSE(run_sweep(made.simulated, shared));
  CHECK(run_events(made.simulated, shared)->seconds == doctest::Approx(2001e-6));
}

/// A copy that takes long, much else that does not wait for it, and at the end a message that does.
Plan old_copy(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts output{shape, Buffer::output};
  const int next = (shape.rank + 1) % shape.ranks, before = (shape.rank + shape.ranks - 1) % shape.ranks;
  const auto copied = plan.scratch(output[shape.rank]);
  plan.copy(copied, output[shape.rank]);
  for (int i = 0; i < 40; ++i) {
    plan.send(next, output[shape.rank]);
    plan.recv(before, output[before]);
  }
  plan.send(next, copied);
  plan.recv(before, output[before]);
  return std::move(plan).build();
}

TEST_CASE("a step that waits for one long ago is not swept too early") {
  const Made made{old_copy, 4};
  const Network slow_copies = hosts_of_two("copy 1MB/s\n");
  const auto swept = run_sweep(made.simulated, slow_copies);
  const auto ran = run_events(made.simulated, slow_copies);
  CHECK(ran->seconds == doctest::Approx(1 + 1001e-6));
  REQUIRE(swept);
  CHECK(swept->seconds == ran->seconds);
}

}  // namespace
}  // namespace tutti::cli::simulate
