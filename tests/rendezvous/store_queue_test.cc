// The queues of every store, whichever it is, and lists of its keys.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "tests/rendezvous/store_bench.h"

namespace tutti::testing {
namespace {

using Keys = std::vector<std::string>;

/// False at a server of PyTorch's that has none.
bool bench_has_queues() { return !foreign_server() || std::getenv("FOREIGN_STORE_HAS_QUEUES") != nullptr; }

}  // namespace

TEST_CASE("a queue gives its values in order, each once, and is no key") {
  for_each_store([](const Bench& bench) {
    if (!bench_has_queues()) return;
    CAPTURE(bench.name);
    const auto store = bench.open();
    const auto other = bench.open();
    const std::string odd{"\0\xff\n/", 4};
    CHECK(store->queue_length(odd) == 0);
    CHECK_FALSE(store->queue_try_pop(odd));
    CHECK_FALSE(store->check(Keys{odd}));
    for (const std::string& value : {std::string{}, odd, std::string(100'003, 'y')}) store->queue_push(odd, value);
    CHECK(store->queue_length(odd) == 3);  // a push is not answered; this is, after it
    CHECK(other->check(Keys{odd}));
    CHECK_NOTHROW(other->wait(Keys{odd}));
    CHECK_FALSE(other->erase(odd));
    CHECK(other->list_keys().empty());
    CHECK(other->queue_pop(odd).empty());
    CHECK(store->queue_pop(odd) == odd);
    CHECK(other->queue_try_pop(odd) == std::string(100'003, 'y'));
    CHECK_FALSE(store->check(Keys{odd}));
  });
}

TEST_CASE("values that are pushed wake those that pop, and each gets one") {
  for_each_store([](const Bench& bench) {
    if (!bench_has_queues()) return;
    CAPTURE(bench.name);
    constexpr int poppers = 4, each = 9;
    std::atomic<int> sum{0};
    run_threads(poppers + 1, [&](int thread) {
      const auto store = bench.open();
      for (int i = 0; thread < poppers && i < each; ++i) sum += std::stoi(store->queue_pop("queue"));
      for (int i = 0; thread == poppers && i < poppers * each; ++i) store->queue_push("queue", std::to_string(i));
      if (thread == poppers) store->key_count();
    });
    CHECK(sum == poppers * each * (poppers * each - 1) / 2);
    CHECK(bench.open()->queue_length("queue") == 0);
  });
}

TEST_CASE("a pop gets its value though others wait for the same name and take nothing") {
  for_each_store([](const Bench& bench) {
    if (!bench_has_queues()) return;
    CAPTURE(bench.name);
    constexpr int waiters = 3;
    run_threads(waiters + 2, [&](int thread) {
      const auto store = bench.open();
      const std::string name = "queue";
      if (thread < waiters) return store->wait(Keys{name});
      if (thread == waiters + 1) return store->queue_push(name, "1"), void(store->key_count());
      CHECK(store->queue_pop(name) == "1");
      for (int i = 0; i < waiters; ++i) store->queue_push(name, "2");  // each may wake one only
      store->key_count();
    });
    CHECK(bench.open()->queue_length("queue") == waiters);
  });
}

TEST_CASE("a pop in vain ends at its deadline and names the queue, also where a key has its name") {
  for_each_store([](const Bench& bench) {
    if (!bench_has_queues()) return;
    CAPTURE(bench.name);
    const auto store = bench.open();
    store->set("key", "1");
    store->set_timeout(50ms);
    for (const std::string& name : {std::string{"queue"}, std::string{"key"}}) {
      const auto begin = Clock::now();
      const Error error = error_of([&] { store->queue_pop(name); });
      CHECK(Clock::now() - begin >= 50ms);
      CHECK(Clock::now() - begin < patience / 2);
      CHECK(error.code() == ErrorCode::rendezvous);
      CHECK(contains(error.what(), name + "\""));
      CHECK(contains(error.what(), "wait longer (set_timeout())"));
    }
    store->set_timeout(patience);
    store->queue_push("key", "2");
    CHECK(store->get("key") == "1");
    CHECK(store->queue_pop("key") == "2");
  });
}

TEST_CASE("get waits for a key, though there is a queue of its name") {
  for_each_store([](const Bench& bench) {
    if (bench.name != "memory" && bench.name != "file") return;  // the protocol cannot tell them apart
    CAPTURE(bench.name);
    const auto store = bench.open();
    store->queue_push("name", "pushed");
    store->set_timeout(50ms);
    CHECK_THROWS_AS(store->get("name"), Error);
    store->set("name", "set");
    CHECK(store->multi_get(Keys{"name"}) == Keys{"set"});
  });
}

TEST_CASE("keys are listed as the store names them") {
  for_each_store([](const Bench& bench) {
    if (!bench_has_queues()) return;
    CAPTURE(bench.name);
    const auto store = bench.open();
    CHECK(store->list_keys().empty());
    store->set("b", "1");
    store->add("", 1);
    prefix_store("deep", store)->set("a", "1");
    store->set("deeper", "1");
    store->key_count();
    Keys keys = bench.open()->list_keys();
    std::ranges::sort(keys);
    CHECK(keys == Keys{"", "b", "deep/a", "deeper"});
    CHECK(prefix_store("deep", store)->list_keys() == Keys{"a"});
  });
}

}  // namespace tutti::testing
