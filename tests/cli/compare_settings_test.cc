// How the comparison with other libraries starts each of them.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/bench/compare_libraries/figures.h"
#include "cli/bench/compare_libraries/hosts.h"
#include "cli/bench/compare_libraries/settings.h"
#include "cli/measure/workload.h"

using namespace tutti::cli;
using measure::MeasuredCall;
using tutti::Collective;

namespace {

TEST_CASE("settings: on GPUs ranks may share one with each library that allows it, and is told to") {
  const versus::Line line{"gpu", Collective::all_reduce, 2, {1024}};
  const auto has_word = [](const std::vector<std::string>& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const versus::Places places{"/bin/tutti", "/peers", "/on-hosts"};
  for (const versus::Setting& setting : versus::settings_of("nccl", line, 2, places))
    CHECK(has_word(setting.environment, "NCCL_MULTI_RANK_GPU_ENABLE=1"));
  const auto symmetric = versus::settings_of("torch-symm", line, 2, places);
  REQUIRE(symmetric.size() == 2);
  for (const versus::Setting& setting : symmetric) {
    CHECK(has_word(setting.environment, "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES=1"));
    CHECK(has_word(setting.launcher, "/peers/torch-gloo/bin/python"));
  }
  CHECK(symmetric[0].name == "one-shot");
  CHECK(symmetric[1].name == "two-shot");
  const auto own = versus::settings_of("tutti", line, 2, places);
  REQUIRE(own.size() == 2);
  CHECK(own[0].name == "plain");
  CHECK(own[1].name == "windows");  // and not "allocated", which would not count
  for (const versus::Setting& setting : own) CHECK(has_word(setting.environment, "TUTTI_TRANSPORT=shm"));
  for (const versus::Setting& setting : versus::settings_of(versus::own_in_torch, line, 2, places))
    CHECK(has_word(setting.environment, "TUTTI_TRANSPORT=shm"));
}

TEST_CASE("every setting names its ranks, differs from the others, and is kept to the transport") {
  const versus::Places places{"/bin/tutti", "/peers", "/on-hosts"};
  for (const std::string side : {"tutti", "openmpi", "mpich", "gloo", "impi", "openmpi5", "mpich5", "torch-gloo"})
    for (const std::string transport : {"shm", "tcp"})
      for (const MeasuredCall call : {MeasuredCall{Collective::all_reduce}, measure::send_recv})
        for (const int ranks : {2, 4}) {
          CAPTURE(side);
          CAPTURE(transport);
          CAPTURE(ranks);
          std::set<std::string> names;
          for (const versus::Setting& setting :
               versus::settings_of(side, {transport, call, ranks, {4}}, /*cores=*/2, places)) {
            CAPTURE(setting.name);
            CHECK(setting.side == side);
            CHECK(names.insert(setting.name).second);
            const auto number = std::find(setting.launcher.begin(), setting.launcher.end(), "-n");
            REQUIRE(number < setting.launcher.end() - 1);
            CHECK(number[1] == std::to_string(ranks));
            std::string all;
            for (const auto& words : {setting.launcher, setting.environment})
              for (const std::string& word : words) all += word + "\n";
            const bool says_tcp = all.find("tcp") != std::string::npos;
            if (side != "gloo" && side != "torch-gloo") CHECK(says_tcp == (transport == "tcp"));
          }
          CHECK(names.contains(std::string{versus::as_shipped}) ==
                (side.ends_with("5") || side == "impi" || side == "torch-gloo" ||
                 (side == "openmpi" && transport == "shm")));
        }
}

TEST_CASE("on several hosts each library starts as many ranks on each, and from the first") {
  const versus::Places places{"/bin/tutti", "/peers", "/on-hosts"};
  const versus::Line line{"hosts:3", Collective::all_reduce, 6, {4}};
  for (const std::string side : {"tutti", "gloo"}) {
    CAPTURE(side);
    const auto settings = versus::settings_of(side, line, /*cores=*/2, places);
    REQUIRE_FALSE(settings.empty());
    for (const versus::Setting& setting : settings) {
      const std::vector<std::string> begin{"/on-hosts", "run", "3", "2", "/bin/tutti"};
      REQUIRE(setting.launcher.size() > begin.size());
      CHECK(std::equal(begin.begin(), begin.end(), setting.launcher.begin()));
      for (const std::string& variable : setting.environment) CHECK_FALSE(variable.starts_with("TUTTI_TRANSPORT="));
    }
  }
  const auto settings = versus::settings_of("openmpi5", line, /*cores=*/2, places);
  CHECK(settings.size() == 3);
  for (const versus::Setting& setting : settings) {
    const std::vector<std::string> begin{
        "/on-hosts", "exec", "0", "/peers/openmpi5/bin/mpirun", "--host", "10.77.0.1:2,10.77.0.2:2,10.77.0.3:2"};
    REQUIRE(setting.launcher.size() > begin.size());
    CHECK(std::equal(begin.begin(), begin.end(), setting.launcher.begin()));
  }
}

TEST_CASE("a transport of hosts has their number") {
  CHECK(versus::hosts_of("hosts:2") == 2);
  CHECK(versus::hosts_of("hosts:64") == 64);
  for (const char* const other : {"shm", "tcp", "hosts", "hosts:", "hosts:1", "hosts:65", "hosts:-2", "hosts:2x"})
    CHECK(versus::hosts_of(other) == 0);
}

TEST_CASE("as shipped a library is told the number of ranks, and nothing about its memory or its algorithms") {
  const versus::Places places{"/bin/tutti", "/peers", "/on-hosts"};
  for (const std::string side : {"impi", "openmpi5", "mpich5"}) {
    CAPTURE(side);
    const auto settings = versus::settings_of(side, {"shm", Collective::broadcast, 4, {4}}, /*cores=*/2, places);
    const auto shipped = std::find_if(settings.begin(), settings.end(),
                                      [](const auto& setting) { return setting.name == versus::as_shipped; });
    REQUIRE(shipped != settings.end());
    CHECK(shipped->launcher.front().starts_with("/peers/" + side + "/bin/"));
    CHECK(shipped->launcher.size() <= 4);
    for (const std::string& variable : shipped->environment) {
      CAPTURE(variable);
      CHECK(
          (variable.find("ALLOW_RUN_AS_ROOT") != std::string::npos || variable.find("=/peers/") != std::string::npos));
    }
    for (const versus::Setting& other : settings)
      if (other.name != versus::as_shipped)
        CHECK(std::count(other.environment.begin(), other.environment.end(), "MALLOC_MMAP_THRESHOLD_=4294967296") == 1);
  }
}

}  // namespace
