// Network files: their values take effect, and errors in them are reported with the line.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "cli/simulate/calibrate.h"
#include "cli/simulate/network.h"
#include "tests/cli/network_files.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

const std::string good_file = R"(# a comment
name     a  cluster     # of ours
socket   2
host     4
leaf     16
start    1.5us
reduce   8GB/s
link socket 100ns 10ns 8Gb/s
link host 200ns 0ns unlimited
link leaf 1us 0ns 1GB/s
link leaf from 64K 5us 1us 2GB/s
link far 1ms 0ns 500MB/s
)";

std::string with(const std::string& line, const std::string& instead) {
  std::string text = good_file;
  const std::size_t at = text.find(line);
  REQUIRE(at != std::string::npos);
  return text.replace(at, line.size(), instead);
}

TEST_CASE("a network is what its file says") {
  const Network network = NetworkFile::parse(good_file, "a.net").for_algorithm("ring");
  CHECK(network.name == "a  cluster");
  CHECK(network.start == 1.5e6);
  CHECK(network.distance(0, 1) == Distance::socket);
  CHECK(network.distance(1, 2) == Distance::host);
  CHECK(network.distance(3, 4) == Distance::leaf);
  CHECK(network.distance(15, 16) == Distance::far);
  CHECK(network.reduction(8000) == 1e6);
  CHECK(network.copying(8000) == 0);
  CHECK(network.cost(Distance::socket, 1000).latency == 1e5);
  CHECK(network.cost(Distance::socket, 1000).gap == 1e4);
  CHECK(network.cost(Distance::socket, 1000).transfer == 1e6);
  CHECK(network.cost(Distance::host, 1000).transfer == 0);
  CHECK(network.cost(Distance::leaf, 65535).latency == 1e6);
  CHECK(network.cost(Distance::leaf, 65536).latency == 5e6);
  CHECK(network.cost(Distance::leaf, 65536).transfer == 65536 * 500);
}

TEST_CASE("an algorithm has what its section says, and the rest from above") {
  const NetworkFile file =
      NetworkFile::parse(good_file + "for tree chain\nstart 9us\nlink leaf 7us 0ns 1GB/s\n", "a.net");
  CHECK(file.for_algorithm("ring").start == 1.5e6);
  CHECK(file.for_algorithm("tree").start == 9e6);
  CHECK(file.for_algorithm("chain").cost(Distance::leaf, 1 << 20).latency == 7e6);  // no tiers any more
  CHECK(file.for_algorithm("chain").cost(Distance::far, 8).latency == 1e9);
}

TEST_CASE("an error is named with file and line") {
  const auto says = [](const std::string& text, const char* what) {
    CAPTURE(text);
    CHECK_MESSAGE(network_problem(text).find(what) != std::string::npos, network_problem(text));
  };
  says(with("reduce ", "reduse "),
       "a.net:7: there is no keyword \"reduse\". Did you mean \"reduce\"? There are: name, socket, ");
  says(with("8GB/s", "8GB"),
       "a.net:7: the speed of reductions must be like 12.5GB/s, 100Gb/s or unlimited, not \"8GB\"");
  says(with("8GB/s", "-8GB/s"), "a.net:7:");
  says(with("8GB/s", "nanGB/s"), "a.net:7:");
  says(with("8GB/s", "0GB/s"), "less than a kilobyte per second");
  says(with("1.5us", "1.5"), "a.net:6: start must be like 350ns, 2.7us or 1ms, not \"1.5\"");
  says(with("1.5us", "1e300ms"), "more than a thousand seconds");
  says(with("1.5us", "1.5us 3us"), "a.net:6: expected \"start VALUE\"");
  says(with("socket   2", "socket   two"), "a.net:3: socket must be a number of ranks, at least 1, not \"two\"");
  says(with("socket   2", "socket   0"), "a.net:3:");
  says(with("socket   2", "socket   3"), "a.net:4: \"host\" must be a multiple of \"socket\", and ");
  says(with("link far 1ms 0ns 500MB/s\n", ""), "a line \"link far LATENCY GAP BANDWIDTH\" is missing");
  says(with("name ", "#name "), "a line \"name WORDS\" is missing");
  says(with("link far", "link fear"), "a.net:12: there is no distance \"fear\". Did you mean \"far\"?");
  says(with("link far 1ms 0ns", "link far 1ms"),
       "a.net:12: expected \"link DISTANCE [from BYTES] LATENCY GAP BANDWIDTH\"");
  says(with("from 64K", "from lots"), "a.net:11: \"from\" takes a size such as 128K, not \"lots\"");
  says(with("link host 200ns", "link host from 4K 200ns"), "must begin without \"from\"");
  says(good_file + "link far 1us 0ns 1GB/s\n",
       "a.net:13: \"link far\" is given twice, first in line 12; leave out one of them.");
  says(good_file + "start 1us\n", "a.net:13: \"start\" is given twice");
  says(good_file + "shared rack 1GB/s\n", "a.net:13: only \"host\" or \"leaf\" can be shared, not \"rack\"");
  says(good_file + "for thee\n",
       "a.net:13: there is no algorithm \"thee\". Did you mean \"tree\"? `tutti plan --list` has all of them.");
  says(good_file + "for tree\nfor ring tree\n", "a.net:14: \"tree\" has a section already");
  says(good_file + "for tree\ngpu wait 2us\n",
       "a.net:14: \"gpu\" is for the whole network and must come before the first \"for\".");
  says(good_file + "for tree\nhost 8\n", "a.net:14: \"host\" is for the whole network");
  says("", "a.net:1: until here a line \"name WORDS\" is missing");
}

TEST_CASE("a calibrated network gives the times back that it was made of") {
  Figures figures;
  figures.one_message = {{8, 6.0}, {1024, 6.5}, {65536, 20.0}, {1048576, 300.0}};
  figures.two_hops = 11.0;  // so that a hop takes 5 us, and a call 1 us besides
  figures.many = 2.0;
  figures.summed_bytes = 65536;
  figures.sum = 36.384;
  const std::string text = network_text("measured", figures);
  CAPTURE(text);
  const Network network = NetworkFile::parse(text, "measured").for_algorithm("");
  CHECK(network.name == "measured");
  CHECK(network.start == doctest::Approx(1e6));
  CHECK(network.reduction(65536) == doctest::Approx(16.384e6).epsilon(1e-3));
  for (const Distance distance : {Distance::socket, Distance::host, Distance::leaf, Distance::far})
    for (const auto& [bytes, time] : figures.one_message) {
      const MessageCost cost = network.cost(distance, bytes);
      CHECK(network.start + cost.latency + cost.transfer == doctest::Approx(time * 1e6).epsilon(2e-3));
      CHECK(cost.gap == 2e6);
    }
}

TEST_CASE("noise in what was measured makes no network that cannot be") {
  Figures figures;
  figures.one_message = {{8, 6.0}, {1024, 5.0}, {65536, 4.0}, {1048576, 1000.0}};
  figures.two_hops = 3.0;
  figures.many = 50.0;
  figures.summed_bytes = 1024;
  figures.sum = 1.0;
  const Network network = NetworkFile::parse(network_text("noisy", figures), "noisy").for_algorithm("");
  CHECK(network.reduction(1024) == 0);
  double before = 0;
  for (const std::size_t bytes : {8UL, 1024UL, 65536UL, 1048576UL, 16777216UL}) {
    const MessageCost cost = network.cost(Distance::far, bytes);
    CHECK(cost.latency >= 0);
    CHECK(cost.gap <= 6.1e6);
    before = std::max(before, cost.latency + cost.transfer);
  }
  CHECK(before > 1000e6);
}

TEST_CASE("the networks that come with the program are right, and others are files") {
  for (const BuiltinNetwork& one : builtin_networks())
    CHECK_FALSE(NetworkFile::open(std::string{one.name}).name().empty());
  CHECK_THROWS_WITH_AS(NetworkFile::open("/nowhere/x.net"), doctest::Contains("summit, summit-physical, 100g"), Error);
}

}  // namespace
}  // namespace tutti::cli::simulate
