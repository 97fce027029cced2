// Calls of ranks that share one GPU, command by command: against sums by hand, and against what an H200 was seen to do.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/simulate/commands.h"
#include "cli/simulate/network.h"
#include "cli/simulate/runs.h"
#include "tests/cli/network_files.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

const std::string made_up = R"(
name made up
start 100us
gpu memory 1GB/s
gpu kernel 10us
gpu wait 1us
gpu signal 2us
gpu latency 5us
gpu change 1000us
)";

Network network(const std::string& text) { return NetworkFile::parse(text, "a.net").for_algorithm(""); }

double microseconds(Collective collective, const std::string& name, int ranks, std::size_t bytes, const Network& on,
                    Runner runner = Runner::leader) {
  const auto choice = settled(algorithms::find(collective, name), ranks, bytes);
  return run_commands({collective, choice, ranks, 0, bytes}, on, runner).value().seconds * 1e6;
}

TEST_CASE("simulate: a leader waits for all, reads and writes each buffer once, and tells all") {
  const Network on = network(made_up);
  for (const int n : {2, 3, 8}) {
    // The others have told it after 2 us. 4,000 bytes of each are read, and as many written, at 1 GB/s.
    const double leader = 2 + 5 + (n - 1) * 1 + 10 + 2 * n * 4.0 + (n - 1) * 2;
    CHECK(microseconds(Collective::all_reduce, "direct", n, 4000, on) == doctest::Approx(100 + leader + 5 + 1));
  }
}

TEST_CASE("simulate: where each rank has kernels on the same GPU, it changes between them") {
  const Network on = network(made_up);
  const double alone = microseconds(Collective::all_reduce, "direct", 4, 4000, on);
  // One for each rank, since the call before ended with the last one's.
  const double each = microseconds(Collective::all_reduce, "direct_two_shot", 4, 4000, on, Runner::each);
  CHECK(each > 4 * 1000);
  CHECK(each < 4 * 1000 + 2 * alone);
  // In a ring every step is another rank's.
  CHECK(microseconds(Collective::all_reduce, "ring", 4, 4000, on) > 12 * 1000);
}

TEST_CASE("simulate: every algorithm comes to its end on a GPU") {
  const Network on = network(made_up);
  for (const algorithms::Entry& entry : algorithms::catalogue())
    if (entry.collective != Collective::barrier)
      for (const std::size_t bytes : {std::size_t{4000}, std::size_t{8} << 20}) {
        CAPTURE(std::string{entry.name});
        CHECK(microseconds(entry.collective, std::string{entry.name}, 5, bytes, on) > 100);
      }
  CHECK_THROWS_WITH(microseconds(Collective::barrier, "direct", 2, 0, on),
                    doctest::Contains("a barrier has no memory"));
}

TEST_CASE("simulate: more ranks than can share a GPU are refused before anything is made for each two of them") {
  const Network on = network(made_up);
  CHECK(microseconds(Collective::broadcast, "tree", 512, 4000, on) > 100);
  for (const int n : {513, 24576})
    for (const auto* const name : {"tree", "ring*4096"}) {
      const auto choice = algorithms::find(Collective::all_reduce, name);
      try {
        (void)simulate({Collective::all_reduce, choice, n, 0, 4000}, on);
        FAIL("not refused");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unsupported);
        CHECK(error.what() == "simulate: " + std::to_string(n) +
                                  " ranks are more than can share the GPU of a network with \"gpu\" lines (512); take "
                                  "fewer ranks (-n), or another network (--net)");
      }
    }
  // So are plans that would take gigabytes together.
  const auto ring = algorithms::find(Collective::all_reduce, "ring*4096");
  CHECK_THROWS_WITH_AS(simulate({Collective::all_reduce, ring, 512, 0, 4000}, on),
                       doctest::Contains("ring*4096 over 512 ranks has more than the 48 million steps"), Error);
}

/// docs/gpu-measurements.md, "How an all_reduce on one card may go".
struct Seen {
  int ranks;
  std::size_t bytes;
  double leader;  ///< us
  double spread;
};
constexpr Seen seen_on_h200[] = {
    {2, 1 << 10, 10.6, 286},  {4, 1 << 10, 18.3, 596},   {8, 1 << 10, 35.4, 1268},   {2, 64 << 10, 10.9, 287},
    {4, 64 << 10, 18.9, 598}, {8, 64 << 10, 36.4, 1274}, {2, 1 << 20, 11.3, 287},    {4, 1 << 20, 19.4, 598},
    {8, 1 << 20, 37.7, 1266}, {2, 16 << 20, 29.0, 311},  {4, 16 << 20, 56.5, 652},   {8, 16 << 20, 109, 1372},
    {2, 256 << 20, 286, 581}, {4, 256 << 20, 570, 1174}, {8, 256 << 20, 1124, 2376},
};

TEST_CASE("simulate: the H200 is predicted within a factor of 1.5, and from 16 MiB on of 1.2") {
  const Network h200 = NetworkFile::open("h200").for_algorithm("direct");
  for (const Seen& seen : seen_on_h200) {
    CAPTURE(seen.ranks);
    CAPTURE(seen.bytes);
    const double most = seen.bytes >= std::size_t{16} << 20 ? 1.2 : 1.5;
    const double leader = microseconds(Collective::all_reduce, "direct", seen.ranks, seen.bytes, h200);
    CAPTURE(leader);
    CHECK(std::max(leader / seen.leader, seen.leader / leader) < most);
    const double spread =
        microseconds(Collective::all_reduce, "direct_two_shot", seen.ranks, seen.bytes, h200, Runner::each);
    CAPTURE(spread);
    CHECK(std::max(spread / seen.spread, seen.spread / spread) < 1.5);
  }
}

TEST_CASE("simulate: a GPU's network file has all of its lines, and none of a network") {
  const auto without = [](const std::string& line) {
    std::string text = made_up;
    return text.erase(text.find(line), line.size());
  };
  CHECK(network_problem(made_up) == "none");
  CHECK(network_problem(without("gpu change 1000us\n")) ==
        "a.net:8: until here a line \"gpu change TIME\" is missing.");
  CHECK(network_problem(without("gpu memory 1GB/s\n")) ==
        "a.net:8: until here a line \"gpu memory BANDWIDTH\" is missing.");
  CHECK(network_problem(made_up + "copy 1GB/s\n") ==
        "a.net:10: \"copy\" has no meaning where ranks share a GPU; leave it out.");
  CHECK(network_problem(made_up + "gpu wait 2us\n") ==
        "a.net:10: \"gpu wait\" is given twice, first in line 6; leave out one of them.");
  CHECK(network_problem(made_up + "gpu speed 2us\n") ==
        "a.net:10: a gpu has memory, kernel, wait, signal, latency and change, not \"speed\".");
  CHECK(network_problem(made_up + "for ring\nreduce 1GB/s\n") ==
        "a.net:10: \"for\" has no meaning where ranks share a GPU; leave it out.");
}

}  // namespace
}  // namespace tutti::cli::simulate
