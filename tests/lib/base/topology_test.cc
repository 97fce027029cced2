#include "lib/base/topology.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/scratch.h"
#include "tutti/error.h"

namespace tutti::testing {
namespace {

/// /sys of a host of two sockets: cores 0 to 3 with two last-level caches on node 0, cores 4 to 7 with one on node 1.
class Sys {
 public:
  Sys() {
    for (int core = 0; core < 8; ++core) {
      const char* const sharers = core < 2 ? "0-1" : core < 4 ? "2-3" : "4-7";
      const std::string cache = "cpu/cpu" + std::to_string(core) + "/cache/index";
      write(cache + "0", "1", std::to_string(core));  // data
      write(cache + "1", "1", std::to_string(core));  // instructions
      write(cache + "2", "3", sharers);               // the last level need not come last
      write(cache + "3", "2", std::to_string(core));
    }
    write("node/online", "0-1");
    write("node/node0/cpulist", "0-3");
    write("node/node1/cpulist", "4-7");
  }
  Place place(const std::string& allowed) const { return place_of(allowed, folder_.name); }
  void forget(const std::string& path) const { std::filesystem::remove_all(full(path)); }

 private:
  std::string full(const std::string& path) const { return folder_.name + "/sys/devices/system/" + path; }
  void write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path{full(path)}.parent_path());
    std::ofstream{full(path)} << content << "\n";
  }
  void write(const std::string& index, const std::string& level, const std::string& sharers) const {
    write(index + "/level", level);
    write(index + "/shared_cpu_list", sharers);
  }

  Folder folder_;
};

std::string why_refused(const std::string& text) {
  try {
    Topology::parse(text, "made-up");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "it is not";
}

std::vector<int> domains_in(const std::string& text, int ranks) {
  return domains_of(Topology::parse(text, "made-up").places_of(ranks));
}

}  // namespace

TEST_CASE("the place of cores is the last-level cache and the NUMA node that all of them share") {
  const Sys sys;
  CHECK(sys.place("01") == Place{"0-1", "0"});
  CHECK(sys.place("1100") == Place{"0-1", "0"});
  CHECK(sys.place("0110") == Place{"", "0"});
  CHECK(sys.place("00001011") == Place{"4-7", "1"});
  CHECK(sys.place("00011") == Place{"", ""});
  CHECK(sys.place("").cache.empty());
}

TEST_CASE("where /sys says nothing of caches or nodes, the place is unknown") {
  const Sys sys;
  sys.forget("cpu/cpu1/cache");
  sys.forget("node");
  CHECK(sys.place("01") == Place{"", ""});
  CHECK(sys.place("1") == Place{"0-1", ""});
}

TEST_CASE("a file gives places to ranks, and to cores for ranks that it does not name") {
  const Topology topology = Topology::parse(
      "# two caches\n"
      "\n"
      "rank 0-2,5\tcache a  node 0 # the first ones\r\n"
      "core 0-1 node 1 cache b\n"
      "core 2 cache c node 1",
      "made-up");
  CHECK(topology.place_of(5, "1") == Place{"a", "0"});
  CHECK(topology.place_of(3, "11") == Place{"b", "1"});
  CHECK(topology.place_of(3, "101") == Place{"", "1"});
  CHECK(topology.place_of(3, "1001") == Place{});  // core 3 is on no line
  CHECK(topology.places_of(4) == std::vector<Place>{{"a", "0"}, {"a", "0"}, {"a", "0"}, {}});
}

TEST_CASE("a file of another form is refused, with the line") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"rank 0 cache a\nranks 1 cache a", "made-up:2: a line begins with rank or core, not with \"ranks\""},
           {"\n\nrank 0", "made-up:3: expected \"rank 0-3 cache NAME node NAME\""},
           {"rank 0 1", "made-up:1: \"1\" is neither cache nor node"},
           {"rank 3-1 cache a", "made-up:1: \"3-1\" is not a list of ranks such as 0-3,8"},
           {"rank 0-3,2-5 cache a", "made-up:1: \"0-3,2-5\" is not a list of ranks such as 0-3,8, from the lowest on"},
           {"core 1,, cache a", "made-up:1: \"1,,\" is not a list of cores"},
           {"core 99999999 cache a", "made-up:1: \"99999999\" is not a list of cores"},
           {"core -1 cache a", "made-up:1: \"-1\" is not a list of cores"},
           {"core 0 cahce a", "made-up:1: \"cahce\" is neither cache nor node. Did you mean \"cache\"?"},
           {"core 0 cache", "made-up:1: the name after cache is missing"},
           {"core 0 cache a cache b", "made-up:1: cache is given twice"},
           {"core 0-3 cache a\ncore 3 cache b", "made-up:2: core 3 has a place already"}}) {
    const std::string said = why_refused(text);
    CAPTURE(said);
    CHECK(said.find(why) == 0);
  }
  CHECK(why_refused("core 0 cache a\nrank 0 cache b\n") == "it is not");
}

TEST_CASE("domains are caches where each is shared, else NUMA nodes, else there are none") {
  const std::vector<int> none;
  CHECK(domains_in("rank 0-2 cache a\nrank 3 cache b", 4) == std::vector{0, 0, 0, 1});
  CHECK(domains_in("rank 0,2 cache x node 1\nrank 1,3 cache a node 0", 4) == std::vector{0, 1, 0, 1});
  CHECK(domains_in("rank 0-3 cache a node 0", 4) == none);           // all share one
  CHECK(domains_in("rank 0 cache a\nrank 1 cache b", 2) == none);    // nobody shares one
  CHECK(domains_in("rank 0-1 cache a\nrank 2 cache b", 4) == none);  // rank 3 may run anywhere
  CHECK(domains_in("rank 0-1 cache a node 0\nrank 2-3 node 1", 4) == std::vector{0, 0, 1, 1});
  CHECK(domains_in("rank 0 cache a node 0\nrank 1 cache b node 0\nrank 2 cache c node 1", 3) == std::vector{0, 0, 1});
  std::string many;
  for (int rank = 0; rank < 18; ++rank)
    many += "rank " + std::to_string(rank) + " cache " + std::to_string(rank / 2) + " node " +
            std::to_string(rank / 9) + "\n";
  CHECK(domains_in(many, 18) == std::vector{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(domains_in(many, 16) == std::vector{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7});
}

}  // namespace tutti::testing
