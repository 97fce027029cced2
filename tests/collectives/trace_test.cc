// Real runs of every collective over every transport, and the traces they leave: each message is there at both its
// ends, and nothing on any thread overlaps.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/base/host.h"
#include "tests/support/allocations.h"
#include "tests/support/noise.h"
#include "tests/support/sample.h"
#include "tests/support/scratch.h"
#include "tests/support/sizes.h"
#include "tests/support/trace_file.h"
#include "tests/support/world.h"
#include "tutti/allocate.h"

namespace tutti::testing {
namespace {

using Body = std::function<void(Communicator&)>;

std::vector<TraceEvent> trace_of(const WorldOptions& options, const Body& body) {
  const Folder folder;
  const Setting file{"TUTTI_TRACE_FILE", folder.name + "/" + std::to_string(std::rand()) + ".json"};
  run_ranks(options, body);
  return read_trace(std::getenv("TUTTI_TRACE_FILE"));
}

std::size_t count(const std::vector<TraceEvent>& events, const std::string& key, const std::string& value) {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [&](const TraceEvent& event) { return event.text(key) == value; }));
}

/// Bytes that came to any rank in this call.
long long bytes_received(const std::vector<TraceEvent>& events) {
  long long bytes = 0;
  for (const TraceEvent& event : events)
    if (event.is("f")) bytes += event.number("received");
  return bytes;
}

struct TracedCall {
  const char* name;
  long long least_received;  // bytes per element, by all ranks together, of any algorithm
  std::function<void(Communicator&, std::size_t)> call;
};

const TracedCall traced_calls[] = {
    {"all_reduce", 4 * 4,  // 2 (n - 1) / n of it to each rank
     [](Communicator& comm, std::size_t n) {
       std::vector<float> data(n, 1);
       comm.all_reduce(data, sum);
     }},
    {"reduce", 4 * 2,
     [](Communicator& comm, std::size_t n) {
       std::vector<float> data(n, 1);
       comm.reduce(data, sum, 2);
     }},
    {"broadcast", 4 * 2,
     [](Communicator& comm, std::size_t n) {
       std::vector<float> data(n, 1);
       comm.broadcast(data, 1);
     }},
    {"all_gather", 4 * 6,
     [](Communicator& comm, std::size_t n) {
       std::vector<float> data(n, 1), all(usual_ranks * n);
       comm.all_gather(data, all);
     }},
    {"reduce_scatter", 4 * 6,
     [](Communicator& comm, std::size_t n) {
       std::vector<float> data(usual_ranks * n, 1), part(n);
       comm.reduce_scatter(data, part, sum);
     }},
    {"scatter", 4 * 2,
     [](Communicator& comm, std::size_t n) {
       std::vector<float> data(comm.rank() == 0 ? usual_ranks * n : 0, 1), part(n);
       comm.scatter(data, part, 0);
     }},
    {"gather", 4 * 2,
     [](Communicator& comm, std::size_t n) {
       std::vector<float> data(n, 1), all(comm.rank() == 0 ? usual_ranks * n : 0);
       comm.gather(data, all, 0);
     }},
    {"all_to_all", 4 * 6,
     [](Communicator& comm, std::size_t n) {
       std::vector<float> data(usual_ranks * n, 1), out(usual_ranks * n);
       comm.all_to_all(data, out);
     }},
    {"barrier", 0, [](Communicator& comm, std::size_t) { comm.barrier(); }},
};

TEST_CASE("every message of every collective is in the trace at both ends") {
  Lot lot{1, 6};
  for (const Kind kind : all_kinds) {
    for (const bool boards : {true, false}) {
      if (!boards && kind != Kind::shm) continue;  // elsewhere there are none
      for (const TracedCall& each : traced_calls) {
        for (const std::size_t n : {std::size_t{1}, std::size_t{3000}, std::size_t{100'000}}) {
          if (!lot.draws()) continue;
          CAPTURE(name_of(kind));
          CAPTURE(boards);
          CAPTURE(each.name);
          CAPTURE(n);
          const auto events = trace_of({.ranks = usual_ranks, .kind = kind, .boards = boards}, [&](Communicator& comm) {
            for (int i = 0; i < 3; ++i) each.call(comm, n);
          });
          CHECK(trace_trouble(events) == "");
          CHECK(count(events, "collective", each.name) == 3 * usual_ranks);
          CHECK(bytes_received(events) >= 3 * each.least_received * static_cast<long long>(n));
        }
      }
    }
  }
}

TEST_CASE(
    "what is scattered or gathered goes over a board while it fits into near caches, a broadcast whatever its size") {
  struct Expectation {
    const char* name;
    bool only_if_small;
    std::function<void(Communicator&, std::size_t)> call;
  };
  const Expectation all[] = {
      {"scatter", true,
       [](Communicator& comm, std::size_t bytes) {
         std::vector<char> whole(bytes), part(bytes / static_cast<std::size_t>(comm.size()));
         comm.scatter(whole, part, 0, {.algorithm = "direct"});
       }},
      {"gather", true,
       [](Communicator& comm, std::size_t bytes) {
         std::vector<char> whole(bytes), part(bytes / static_cast<std::size_t>(comm.size()));
         comm.gather(part, whole, 0, {.algorithm = "direct"});
       }},
      {"broadcast", false,
       [](Communicator& comm, std::size_t bytes) {
         std::vector<char> data(bytes);
         comm.broadcast(data, 0, {.algorithm = "direct"});
       }},
  };
  for (const Expectation& each : all) {
    // Over links the kernel may copy parts of 64 KiB once, and more than 256 KiB are quicker there anyway, but where
    // ranks share cores.
    struct Boundary {
      int ranks;
      std::size_t bytes;
      bool fits;
    };
    const auto most_of = [](int count, std::size_t with_a_core_each) {
      return count > available_cores() ? static_cast<std::size_t>(count) * 128 * kibibyte : with_a_core_each;
    };
    const std::size_t of_3 = most_of(3, 192 * kibibyte - 3), of_8 = most_of(8, 256 * kibibyte);
    for (const Boundary& one : {Boundary{3, of_3, true}, Boundary{3, of_3 + 3, false}, Boundary{8, of_8, true},
                                Boundary{8, of_8 + 8, false}}) {
      CAPTURE(each.name);
      CAPTURE(one.bytes);
      const auto events =
          trace_of({.ranks = one.ranks, .kind = Kind::shm}, [&](Communicator& comm) { each.call(comm, one.bytes); });
      CHECK((count(events, "cat", "board") > 0) == (one.fits || !each.only_if_small));
    }
  }
}

TEST_CASE("point to point is in the trace, in whatever order it is received") {
  for (const Kind kind : all_kinds) {
    CAPTURE(name_of(kind));
    const auto events = trace_of({.ranks = usual_ranks, .kind = kind}, [](Communicator& comm) {
      std::vector<int> small(100), large(200'000);
      if (comm.rank() == 0) {
        for (int i = 1; i < usual_ranks; ++i) comm.recv(large, any_source, {.tag = 2});
        for (int i = 1; i < usual_ranks; ++i) comm.recv(small, i, {.tag = 1});
        Work receive = comm.irecv(small, 0);
        comm.send(small, 0);
        receive.wait();
      } else {
        comm.send(small, 0, {.tag = 1});
        comm.send(large, 0, {.tag = 2});
      }
    });
    CHECK(trace_trouble(events) == "");
    CHECK(count(events, "ph", "s") == 2 * (usual_ranks - 1) + 1);
    CHECK(bytes_received(events) == (usual_ranks - 1) * (400 + 800'000) + 400);
  }
}

TEST_CASE("parts of unequal size, sub-groups, asynchronous and persistent calls are in the trace") {
  for (const Kind kind : all_kinds) {
    CAPTURE(name_of(kind));
    const auto events = trace_of({.ranks = usual_ranks, .kind = kind}, [](Communicator& comm) {
      const std::vector<std::size_t> counts{5, 70'000, 0};
      std::vector<int> mine(counts[static_cast<std::size_t>(comm.rank())]), all(70'005), data(1000), other(1000);
      comm.all_gather_v(mine, all, counts);
      std::vector<int> part(mine.size());
      comm.reduce_scatter_v(all, part, counts, sum);
      auto pair = comm.split(comm.rank() == 1 ? 1 : 0, 0);
      Work first = comm.async().all_reduce(data, sum);
      Work second = pair.async().all_reduce(other, sum);
      first.wait();
      second.wait();
      auto persistent = comm.prepare().all_reduce(data, other, sum);
      for (int i = 0; i < 3; ++i) persistent.run();
    });
    CHECK(trace_trouble(events) == "");
    CHECK(count(events, "collective", "all_reduce") == 5 * usual_ranks);
    CHECK(count(events, "variable", "true") == 2 * usual_ranks);
    std::set<std::string> groups;
    for (const TraceEvent& event : events)
      if (!event.text("collective").empty()) groups.insert(event.text("group"));
    CHECK(groups.size() == 3);
  }
}

TEST_CASE("what joins twice has calls and arrows of its own each time in one trace") {
  for (const Kind kind : all_kinds) {
    CAPTURE(name_of(kind));
    const Folder folder;
    const Setting file{"TUTTI_TRACE_FILE", folder.name + "/t.json"};
    for (int times = 0; times < 2; ++times)
      run_ranks({.ranks = usual_ranks, .kind = kind}, [](Communicator& comm) {
        std::vector<float> data(1000, 1);
        comm.all_reduce(data, sum);
        auto pair = comm.split(comm.rank() == 1 ? 1 : 0, 0);
        pair.all_reduce(data, sum);
      });
    const auto events = read_trace(std::getenv("TUTTI_TRACE_FILE"));
    CHECK(trace_trouble(events) == "");
    std::set<std::string> groups;
    for (const TraceEvent& event : events)
      if (event.text("collective") == "all_reduce") groups.insert(event.text("group"));
    CHECK(groups.size() == 2 * 3);
  }
}

TEST_CASE("calls in allocated memory are in the trace, in two rounds") {
  const auto events = trace_of({.ranks = usual_ranks, .kind = Kind::shm}, [](Communicator& comm) {
    const SharedArray<float> array = allocate<float>(comm, 50'000);
    for (int i = 0; i < 20; ++i) comm.all_reduce(array, sum);
  });
  CHECK(trace_trouble(events) == "");
  CHECK(count(events, "collective", "all_reduce") == 20 * usual_ranks);
  CHECK(count(events, "ph", "s") >= 20 * 2 * usual_ranks * (usual_ranks - 1));
}

TEST_CASE("a long copy of a rank's own part goes on between the messages of others") {
  constexpr std::size_t most = 256 * 1024;
  std::atomic<int> senders = 0;
  for (const std::size_t bytes : {most - 4, most, most + 4, 9 * most / 2}) {
    CAPTURE(bytes);
    senders = 0;
    const auto events =
        trace_of({.ranks = usual_ranks, .kind = Kind::inproc, .boards = false}, [&](Communicator& comm) {
          const std::vector<float> own = noise(bytes / sizeof(float), comm.rank());
          std::vector<float> all(comm.rank() == 0 ? usual_ranks * own.size() : 0);
          const CallOptions options{.algorithm = "direct"};
          if (comm.rank() > 0) {
            Work sent = comm.async().gather(own, all, 0, options);
            senders.fetch_add(1);
            senders.notify_all();
            sent.wait();
            return;
          }
          for (int come = senders; come < usual_ranks - 1; come = senders) senders.wait(come);
          comm.gather(own, all, 0, options);
          for (int rank = 0; rank < usual_ranks; ++rank)
            CHECK(std::ranges::equal(noise(own.size(), rank),
                                     std::span{all}.subspan(own.size() * static_cast<std::size_t>(rank), own.size())));
        });
    CHECK(trace_trouble(events) == "");
    long long copied = 0, last = 0, first_message = std::numeric_limits<long long>::max();
    for (const TraceEvent& event : events) {
      if (event.number("pid") == 0 && event.text("cat") == "copy") {
        CHECK(event.number("bytes") <= static_cast<long long>(most));
        copied += event.number("bytes");
        last = std::max(last, event.time("ts"));
      }
      if (event.number("pid") == 0 && event.text("name") == "receive")
        first_message = std::min(first_message, event.time("ts") + event.number("waited_ns"));
    }
    CHECK(copied == static_cast<long long>(bytes));
    CHECK((first_message < last) == (bytes > most));  // it came before the last piece
  }
}

TEST_CASE("a call that fails says what it waited for") {
  const auto events =
      trace_of({.ranks = 2, .kind = Kind::tcp, .timeout = std::chrono::milliseconds{2000}}, [](Communicator& comm) {
        std::vector<int> data(5000, 1);
        comm.all_reduce(data, sum);
        if (comm.rank() == 1) return;
        CHECK(error_of([&] { comm.all_reduce(data, sum, {.algorithm = "ring"}); }) != "");
      });
  const auto failed = [](const std::string& name) {
    return [name](const TraceEvent& event) {
      return event.text("name").starts_with(name) && event.text("failed") == "true";
    };
  };
  CHECK(std::count_if(events.begin(), events.end(), failed("all_reduce #2")) == 1);
  CHECK(std::count_if(events.begin(), events.end(), failed("receive")) >= 1);
}

TEST_CASE("calls that are traced allocate nothing once warm") {
  trace_of({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::vector<float> data(1000, 1.0F);
    for (const char* algorithm : {"", "ring"}) {
      const auto call = [&] { comm.all_reduce(data, max, {.algorithm = algorithm}); };
      for (int warm_up = 0; warm_up < 50; ++warm_up) call();
      const std::size_t before = transport::testing::allocations();
      for (int round = 0; round < 500; ++round) call();
      CHECK(transport::testing::allocations() - before <= 50);
    }
  });
}

}  // namespace
}  // namespace tutti::testing
