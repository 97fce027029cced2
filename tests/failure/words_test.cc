// docs/failures.md quotes what ranks really say.

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

const std::string& page() {
  static const std::string text = [] {
    const char* docs = std::getenv("DOCS");  // of a test run; else we stand in the repository
    std::ifstream file{std::string{docs ? docs : "docs"} + "/failures.md"};
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }();
  return text;
}

/// With everything that differs from run to run made alike.
std::string alike(std::string text) {
  text = std::regex_replace(text, std::regex{R"(host [^,]+, pid \d+)"}, "host node1, pid 1234");
  text = std::regex_replace(text, std::regex{R"(\d+ of (\d+) steps were done here, \d+ bytes received)"},
                            "N of $1 steps were done here, N bytes received");
  text = std::regex_replace(text, std::regex{R"(Round \d+ of (\d+) was under way here, \d+ bytes received)"},
                            "Round N of $1 was under way here, N bytes received");
  return text;
}

/// What `rank` hears when all ranks run `body` over shared memory.
std::string heard_by(int rank, int ranks, const std::function<void(Communicator&)>& body,
                     const std::string& inject = {}, bool checksum = false) {
  std::vector<std::string> heard(static_cast<std::size_t>(ranks));
  const WorldOptions options{.ranks = ranks,
                             .kind = Kind::shm,
                             .checksum = checksum,
                             .timeout = 20s,
                             .inject = inject,
                             .leave_together = true};
  run_ranks(options,
            [&](Communicator& comm) { heard[static_cast<std::size_t>(comm.rank())] = error_of([&] { body(comm); }); });
  return heard[static_cast<std::size_t>(rank)];
}

void check_quoted(const std::string& heard) {
  const std::string text = alike(heard);
  CHECK_MESSAGE(page().find("```\n" + text + "\n```") != std::string::npos, "not in docs/failures.md: " << text);
}

TEST_CASE("docs/failures.md quotes what a rank says of a message that was changed on its way") {
  check_quoted(heard_by(
      1, 2,
      [](Communicator& comm) {
        std::vector<int> data(1000, 1);
        comm.broadcast(data, 0, {.algorithm = "tree"});
        comm.barrier();
      },
      "corrupt:rank=0", true));
}

TEST_CASE("docs/failures.md quotes what ranks say whose counts or lists differ") {
  check_quoted(heard_by(1, 2, [](Communicator& comm) {
    const std::vector<std::size_t> none{0, 0};
    const std::vector<std::size_t> some{comm.rank() == 1 ? 5U : 0U, 0};
    const std::vector<int> out;
    std::vector<int> in(some[0]);
    comm.all_to_all_v(out, none, in, some, {.algorithm = "direct"});
  }));
  check_quoted(heard_by(0, 3, [](Communicator& comm) {
    Communicator part = comm.rank() == 2 ? comm.subgroup({2, 1, 0}) : comm.subgroup({0, 1, 2});
    part.barrier({.algorithm = "dissemination"});
  }));
}

TEST_CASE("docs/failures.md quotes what ranks say") {
  REQUIRE(!page().empty());
  // A rank that is cut off looks like one that was killed. A slow rank may learn of it in the call before.
  const auto call = [](Communicator& comm) {
    std::vector<int> data(1000, 1);
    for (int i = 0; i < 3; ++i) comm.all_reduce(data, sum, {.algorithm = "ring"});
  };
  const std::string lost = heard_by(0, 3, call, "drop:rank=1,op=2");
  check_quoted(std::regex_replace(lost, std::regex{"all_reduce #1"}, "all_reduce #2"));
  check_quoted(heard_by(0, 3, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    comm.all_reduce(data, sum, {.algorithm = "direct"});
    if (comm.rank() != 1) comm.all_reduce(data, sum, {.algorithm = "direct", .timeout = short_deadline});
  }));
  check_quoted(heard_by(0, 2, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    if (comm.rank() == 1) comm.recv(data, 0, {.tag = 7, .timeout = 3 * short_deadline});
    comm.all_reduce(data, sum, {.algorithm = "direct", .timeout = short_deadline});
  }));
  check_quoted(heard_by(0, 2, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    if (comm.rank() == 0) comm.recv(data, 1, {.tag = 9, .timeout = short_deadline});
    comm.barrier({.algorithm = "dissemination"});
  }));
  check_quoted(heard_by(0, 2, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    if (comm.rank() == 0) comm.recv(data, 1, {.tag = 6, .timeout = short_deadline});
    if (comm.rank() == 1) comm.send(data, 0, {.tag = 5});
  }));
  check_quoted(heard_by(0, 2, [](Communicator& comm) {
    std::vector<int> data(100'000, 1);
    comm.send(data, 1 - comm.rank(), {.timeout = short_deadline});
  }));
  check_quoted(heard_by(0, 3, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    Communicator part = comm.subgroup({0, 1, 2});
    if (comm.rank() != 1) part.all_reduce(data, sum, {.algorithm = "direct"});
    if (comm.rank() == 1) const Communicator gone = std::move(part);
  }));
  check_quoted(heard_by(1, 2, [](Communicator& comm) {
    std::vector<int> data(100, 1);
    std::vector<double> other(100, 1);
    if (comm.rank() == 0) comm.broadcast(data, 0, {.algorithm = "tree"});
    if (comm.rank() == 1) comm.broadcast(other, 0, {.algorithm = "tree"});
    comm.barrier();
  }));
  check_quoted(heard_by(1, 2, [](Communicator& comm) {
    std::vector<int> data(comm.rank() == 0 ? 100 : 10, 1);
    if (comm.rank() == 0) {
      comm.send(data, 1);
    } else {
      comm.recv(data, 0);
    }
  }));
  check_quoted(heard_by(0, 2, [](Communicator& comm) {
    if (comm.rank() == 1) return comm.abort("the loss is not a number");
    comm.barrier({.algorithm = "dissemination"});
  }));
  check_quoted(heard_by(0, 2, [](Communicator& comm) {
    const std::vector<int> in(10, 1);
    std::vector<int> out(5);
    comm.all_reduce(in, out, sum);
  }));
  check_quoted(heard_by(0, 2, [](Communicator& comm) {
    std::vector<int> data(10, 1);
    comm.broadcast(data, 7);
  }));
}

}  // namespace
}  // namespace tutti::testing
