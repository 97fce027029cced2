#include "lib/failure/inject.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>
#include <vector>

#include "lib/base/descriptor.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;
using detail::Fault;
using detail::parse_faults;

std::string complaint(std::string_view text) {
  return error_of([&] { parse_faults(text, 4); });
}

Fault one(std::string_view text) {
  const auto faults = parse_faults(text, 4);
  REQUIRE(faults.size() == 1);
  return faults[0];
}

TEST_CASE("a fault says what, who and where, and has defaults for the rest") {
  const Fault kill = one("kill:rank=2,op=5,step=3");
  CHECK(kill.kind == Fault::Kind::kill);
  CHECK(kill.rank == 2);
  CHECK(kill.operation == 5);
  CHECK(kill.step == 3);
  CHECK(kill.group == 0);
  const Fault stop = one("stop");
  CHECK(stop.kind == Fault::Kind::stop);
  CHECK(stop.rank == -1);
  CHECK(stop.operation == 1);
  CHECK(stop.step == Fault::first_step);
  CHECK(one("exit:step=last").step == Fault::last_step);
  CHECK(one("throw:group=2").group == 2);
  CHECK(one("throw:group=world").group == 0);
  CHECK(one("delay:ms=250").delay == 250ms);
  const Fault refuse = one("refuse:call=socket,errno=EMFILE,nth=3");
  CHECK(refuse.call == SystemCall::socket);
  CHECK(refuse.error == EMFILE);
  CHECK(refuse.nth == 3);
  CHECK(parse_faults("drop:rank=0,op=7;corrupt:rank=1", 4).size() == 2);
  CHECK(parse_faults("", 4).empty());
}

TEST_CASE("an error in a fault names the nearest right word") {
  const auto says = [](std::string_view text, const std::string& word) {
    const std::string what = complaint(text);
    CHECK_MESSAGE(what.find(word) != std::string::npos, what);
    CHECK_MESSAGE(what.find("TUTTI_INJECT") == 0, what);
  };
  says("kil:rank=1", "no fault \"kil\". Did you mean \"kill\"?");
  says("kill:rnk=1", "no key \"rnk\". Did you mean \"rank\"?");
  says("kill:ms=1", "no key \"ms\"");
  says("kill:rank=4", "rank 4 is not in this job, whose ranks are 0 to 3");
  says("kill:rank=-1", "rank= takes a whole number from 0, not \"-1\"");
  says("kill:rank", "rank= takes a whole number");
  says("kill:op=0", "op= takes a whole number from 1");
  says("kill:step=middle", "step=first, step=last or step=");
  says("kill:step=99999999999", "step=");
  says("kill:rank=1,rank=2", "rank= is given twice");
  says("delay:rank=1", "needs ms=");
  says("refuse:call=memfd", "needs call= and errno=");
  says("refuse:errno=EMFILE", "needs call= and errno=");
  says("refuse:call=memfs,errno=EMFILE", "no system call \"memfs\". Did you mean \"memfd\"?");
  says("refuse:call=memfd,errno=EMFIL", "no error \"EMFIL\". Did you mean \"EMFILE\"?");
  says(";kill", "no fault \"\"");
  says("kill;stop:stop", "in \"stop:stop\"");
}

TEST_CASE("a refused system call fails as the system would, the nth of its kind or all") {
  system_calls::refuse(SystemCall::memfd, ENOSPC, 2);
  system_calls::refuse(SystemCall::socket, EMFILE, 0);
  CHECK(Descriptor{system_calls::memfd_create("test", MFD_CLOEXEC)});
  errno = 0;
  CHECK(system_calls::memfd_create("test", MFD_CLOEXEC) == -1);
  CHECK(errno == ENOSPC);
  CHECK(Descriptor{system_calls::memfd_create("test", MFD_CLOEXEC)});
  for (int i = 0; i < 3; ++i) {
    errno = 0;
    CHECK(system_calls::socket(AF_UNIX, SOCK_STREAM, 0) == -1);
    CHECK(errno == EMFILE);
  }
  system_calls::refuse_none();
  CHECK(Descriptor{system_calls::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)});
}

/// All ranks call three times; what each of them was told.
std::vector<std::string> outcomes(Kind kind, const std::string& inject, std::size_t count = 1000) {
  std::vector<std::string> said(3);
  run_ranks({.ranks = 3, .kind = kind, .timeout = 10s, .inject = inject}, [&](Communicator& comm) {
    auto& mine = said[static_cast<std::size_t>(comm.rank())];
    try {
      for (int round = 0; round < 3; ++round) {
        std::vector<int> data(count, 1);
        comm.all_reduce(data, sum, {.algorithm = "ring"});
        for (const int value : data)
          if (value != 3) mine = "wrong";
      }
    } catch (const Error& error) {
      mine = std::string{"Error: "} + error.what();
    } catch (const std::runtime_error& error) {
      mine = std::string{"thrown: "} + error.what();
    }
  });
  return said;
}

TEST_CASE("an injected exception leaves the call on its rank, and the others lose that rank") {
  for (const Kind kind : all_kinds) {
    for (const char* step : {"first", "3", "last"}) {
      const auto said = outcomes(kind, std::string{"throw:rank=1,op=2,step="} + step);
      CHECK_MESSAGE(said[1].find("thrown: injected by TUTTI_INJECT=throw:rank=1") == 0, said[1]);
      for (const std::size_t other : {0U, 2U}) CHECK_MESSAGE(said[other].find("Error: ") == 0, said[other]);
    }
  }
}

TEST_CASE("a rank that drops its links loses the others, and they lose it") {
  for (const Kind kind : all_kinds) {
    const auto said = outcomes(kind, "drop:rank=1,op=2");
    for (const std::string& one : said) CHECK_MESSAGE(one.find("Error: ") == 0, one);
    for (const std::size_t other : {0U, 2U}) {
      const bool named = said[other].find("lost rank 1 (") != std::string::npos ||  // where nobody watches
                         said[other].find(": rank 1 (") != std::string::npos;
      CHECK_MESSAGE(named, said[other]);
    }
  }
}

TEST_CASE("a delayed step makes the call late and changes nothing else") {
  const auto begin = std::chrono::steady_clock::now();
  const auto said = outcomes(Kind::inproc, "delay:rank=2,op=3,ms=150");
  CHECK(said == std::vector<std::string>(3));
  CHECK(std::chrono::steady_clock::now() - begin >= 150ms);
}

TEST_CASE("a corrupted byte changes what arrives, not what the sender has") {
  for (const Kind kind : all_kinds) {
    run_ranks({.ranks = 2, .kind = kind, .inject = "corrupt:rank=0,op=2"}, [](Communicator& comm) {
      for (int round = 1; round <= 3; ++round) {
        std::vector<int> data(5000, comm.rank() == 0 ? 7 : 0);
        comm.broadcast(data, 0, {.algorithm = "tree"});
        const auto right = std::count(data.begin(), data.end(), 7);
        CHECK(right == (round == 2 && comm.rank() == 1 ? 4999 : 5000));
      }
    });
  }
}

TEST_CASE("a fault in a sub-group strikes there and not in the world") {
  for (const int group : {1, 2}) {
    std::vector<int> late(2);
    run_ranks({.ranks = 2, .inject = "throw:rank=0,op=1,group=" + std::to_string(group)}, [&](Communicator& comm) {
      comm.barrier();
      Communicator first = comm.subgroup({0, 1});
      Communicator second = comm.subgroup({0, 1});
      int struck = 0;
      for (Communicator* part : {&first, &second}) {
        if (comm.rank() == 1) {
          const bool hit = part == (group == 1 ? &first : &second);
          CHECK((error_of([&] { part->barrier(); }) != "") == hit);
          continue;
        }
        try {
          part->barrier();
        } catch (const std::runtime_error& thrown) {
          struck = part == &first ? 1 : 2;
          const Communicator gone = std::move(*part);
        }
      }
      if (comm.rank() == 0) CHECK(struck == group);
    });
  }
}

TEST_CASE("a step that the plan does not have is refused, since its fault would never happen") {
  for (const char* fault : {"kill:rank=0,step=999", "corrupt:rank=0,step=1"}) {
    run_ranks({.ranks = 2, .timeout = 10s, .inject = fault}, [](Communicator& comm) {
      std::vector<int> data(10, 1);
      // In a broadcast from rank 1 rank 0 only receives.
      const std::string what = error_of([&] { comm.broadcast(data, 1, {.algorithm = "tree"}); });
      if (comm.rank() == 0) CHECK_MESSAGE(what.find("plan does not have") != std::string::npos, what);
    });
  }
}

}  // namespace
}  // namespace tutti::testing
