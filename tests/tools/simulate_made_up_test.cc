// What no algorithm of the catalogue does, plans made up for it do: who waits at a shared link, and for old steps.

#include <doctest/doctest.h>

#include <string>

#include "algorithms/partition.h"
#include "tools/simulate/events.h"
#include "tools/simulate/network.h"
#include "tools/simulate/sweep.h"

namespace tutti::tools::simulate {
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
        task{Collective::all_gather, {&entry}, ranks, 0, static_cast<std::size_t>(ranks) * megabyte} {
    entry.build = builder;
  }
  algorithms::Entry entry;
  Task task;
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
  CHECK(run_events(made.task, hosts_of_two(""))->seconds == doctest::Approx(1001e-6));
  CHECK(run_events(made.task, hosts_of_two("shared host 1GB/s\n"))->seconds == doctest::Approx(2001e-6));
}

Plan two_ahead(const Shape& shape) {
  PlanBuilder plan{shape};
  const Parts output{shape, Buffer::output};
  const int behind = (shape.rank + shape.ranks - 2) % shape.ranks;
  plan.send((shape.rank + 2) % shape.ranks, output[shape.rank]);
  plan.recv(behind, output[behind]);
  return std::move(plan).build();
}

TEST_CASE("what meets at a shared link is not swept") {
  const Made made{two_ahead, 8};
  const auto swept = run_sweep(made.task, hosts_of_two(""));
  REQUIRE(swept);
  CHECK(swept->seconds == doctest::Approx(1001e-6));
  const Network shared = hosts_of_two("shared host 1GB/s\n");
  CHECK_FALSE(run_sweep(made.task, shared));
  CHECK(run_events(made.task, shared)->seconds == doctest::Approx(2001e-6));
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
  const auto swept = run_sweep(made.task, slow_copies);
  const auto ran = run_events(made.task, slow_copies);
  CHECK(ran->seconds == doctest::Approx(1 + 1001e-6));
  REQUIRE(swept);
  CHECK(swept->seconds == ran->seconds);
}

}  // namespace
}  // namespace tutti::tools::simulate
