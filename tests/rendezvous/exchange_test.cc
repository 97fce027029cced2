#include "rendezvous/exchange.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "rendezvous/tcp_server.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::exchange;
using rendezvous::TcpStoreServer;

/// The limit of a wait for something that never comes. Ranks that take part must have arrived by then, also on a slow
/// machine.
Clock::time_point soon() { return Clock::now() + 60ms; }

std::string value_of(int rank) {
  return std::string(static_cast<std::size_t>(rank * rank), 'v') + std::to_string(rank);
}

}  // namespace

TEST_CASE("everybody gets everybody's value, by rank, as often as they exchange") {
  for (const int ranks : {1, 2, 3, 8}) {
    const auto store = memory_store();
    run_threads(ranks, [&](int rank) {
      for (const char* name : {"first", "second"}) {
        const auto values = exchange(*store, name, rank, ranks, value_of(rank), late());
        CHECK(values.size() == static_cast<std::size_t>(ranks));
        for (int i = 0; i < ranks; ++i) CHECK(values[static_cast<std::size_t>(i)] == value_of(i));
      }
    });
  }
}

TEST_CASE("an exchange costs a fixed number of messages per rank at the server") {
  for (const int ranks : {2, 5, 16}) {
    const TcpStoreServer server{{"127.0.0.1", 0}};
    std::atomic<int> done{0};
    run_threads(ranks, [&](int rank) {
      const auto store = tcp_store(server.endpoint().host, server.endpoint().port, patience);
      exchange(*store, "rank_info", rank, ranks, value_of(rank), late());
      ++done;
    });
    // set, wait, wait and read of get, set; rank 0 checks and sets them all, too, and waits for the readers.
    CHECK(server.figures().requests == static_cast<std::uint64_t>(5 * ranks + 2));
  }
}

TEST_CASE("rank 0 returns only when everybody has read, so the server may end with it") {
  for (int repetition = 0; repetition < 10; ++repetition) {
    auto server = std::make_unique<TcpStoreServer>(rendezvous::Endpoint{"127.0.0.1", 0});
    const rendezvous::Endpoint endpoint = server->endpoint();
    run_threads(4, [&](int rank) {
      const auto store = tcp_store(endpoint.host, endpoint.port, patience);
      CHECK(exchange(*store, "rank_info", rank, 4, "x", late()).size() == 4);
      if (rank == 0) server.reset();
    });
  }
}

TEST_CASE("ranks that did not come are named, the first of them as the culprit") {
  const auto store = memory_store();
  for (const char* there : {"rank_info/0", "rank_info/2", "rank_info/4"})
    store->set(there, "x");  // none can be too late
  run_threads(5, [&](int rank) {
    if (rank == 1 || rank == 3) return;
    const Error error = error_of([&] { exchange(*store, "rank_info", rank, 5, "x", soon()); });
    CHECK(error.code() == ErrorCode::rendezvous);
    CHECK(error.rank() == 1);
    CHECK(contains(error.what(), "\"rank_info\" on rank " + std::to_string(rank) + " of 5"));
    CHECK(contains(error.what(), "ranks 1, 3."));
  });
}

TEST_CASE("rank 0 is named when the others are there, but it does not pass their values on") {
  const auto store = memory_store();
  for (const char* there : {"rank_info/0", "rank_info/2"}) store->set(there, "x");
  const Error error = error_of([&] { exchange(*store, "rank_info", 1, 3, "x", soon()); });
  CHECK(error.rank() == 0);
  CHECK(contains(error.what(), "waited"));
}

TEST_CASE("a rank with more patience than rank 0 hears from it which ranks did not come, before the server ends") {
  auto server = std::make_unique<TcpStoreServer>(rendezvous::Endpoint{"127.0.0.1", 0});
  const rendezvous::Endpoint endpoint = server->endpoint();
  std::atomic<int> ready{0};
  run_threads(4, [&](int rank) {
    if (rank == 2) return;
    const auto store = tcp_store(endpoint.host, endpoint.port, patience);
    ++ready;
    while (ready < 3) std::this_thread::yield();
    const Error error = error_of([&] { exchange(*store, "rank_info", rank, 4, "x", rank == 0 ? soon() : late()); });
    if (rank == 0) server.reset();
    CHECK(error.code() == ErrorCode::rendezvous);
    CHECK(error.rank() == 2);
    CHECK_MESSAGE(contains(error.what(), "for rank 2."), error.what());
    if (rank != 0) CHECK(contains(error.what(), "on rank " + std::to_string(rank) + " of 4: rank 0 has given up"));
  });
}

TEST_CASE("values that are too much for one key are read one by one") {
  const auto store = memory_store();
  const std::string much(5 << 20, 'v');
  run_threads(2, [&](int rank) {
    const auto values = exchange(*store, "large", rank, 2, much + std::to_string(rank), late());
    CHECK((values == std::vector<std::string>{much + "0", much + "1"}));
  });
  CHECK(store->get("large/all").empty());
}

TEST_CASE("many who did not come are counted, not all listed, and found with few questions") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  const auto store = tcp_store(server.endpoint().host, server.endpoint().port, patience);
  const Error error = error_of([&] { exchange(*store, "rank_info", 0, 5000, "x", soon()); });
  CHECK(contains(error.what(), "ranks 1, 2, 3, 4, 5, 6, 7, 8, perhaps more."));
  CHECK(error.rank() == 1);

  for (int rank = 0; rank < 5000; ++rank)
    if (rank != 4999 && rank != 2500) store->set("b/" + std::to_string(rank), "x");
  CHECK(store->key_count() == 5000);  // and "rank_info/0" and "rank_info/all"
  const std::uint64_t before = server.figures().requests;
  CHECK(contains(error_of([&] { exchange(*store, "b", 0, 5000, "x", soon()); }).what(), "ranks 2500, 4999."));
  CHECK(server.figures().requests - before < 60);
}

TEST_CASE("rank 0 awaits the successor of a rank that has gone while it waited for another one") {
  const TcpStoreServer server{any_port};
  const auto connect = [&](std::chrono::milliseconds timeout) {
    return tcp_store(server.endpoint().host, server.endpoint().port, timeout);
  };
  const auto others = connect(patience);
  for (const char* key : {"rank_info/1", "rank_info/read/1", "rank_info/read/2"}) others->set(key, "old");
  CHECK(others->key_count() == 3);
  const std::uint64_t before = server.figures().requests;
  const auto first = connect(3s);  // which its deadline exceeds
  std::vector<std::string> values;
  run_threads(2, [&](int i) {
    if (i == 0) {
      values = exchange(*first, "rank_info", 0, 3, "x", late());
      return;
    }
    CHECK(eventually([&] { return server.figures().requests >= before + 2; }));  // it waits for rank 2
    CHECK(others->erase("rank_info/1"));
    others->set("rank_info/2", "x");
    CHECK(eventually([&] { return server.figures().requests >= before + 6; }));  // it has looked, and waits again
    others->set("rank_info/1", "new");
  });
  CHECK((values == std::vector<std::string>{"x", "new", "x"}));
}

TEST_CASE("a rank that has to look for the values itself names those that do not come by its deadline") {
  const auto store = memory_store();
  store->set_timeout(1s);
  store->set("rank_info/0", "x");
  store->set("rank_info/all", "");
  const Error error = error_of([&] { exchange(*store, "rank_info", 1, 3, "x", soon()); });
  CHECK(error.rank() == 2);
  CHECK_MESSAGE(contains(error.what(), "\"rank_info\" on rank 1 of 3: waited"), error.what());
}

TEST_CASE("a server that is lost during an exchange is the error, not the missing ranks") {
  auto server = std::make_unique<TcpStoreServer>(rendezvous::Endpoint{"127.0.0.1", 0});
  const auto store = tcp_store(server->endpoint().host, server->endpoint().port, patience);
  run_threads(2, [&](int i) {
    if (i == 0) {
      CHECK(contains(error_of([&] { exchange(*store, "rank_info", 0, 2, "x", late()); }).what(),
                     "closed the connection"));
      return;
    }
    CHECK(eventually([&] { return server->figures().requests >= 2; }));
    server.reset();
  });
}

}  // namespace tutti::testing
