// What every store does, whichever it is.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string_view>

#include "tests/rendezvous/store_bench.h"

namespace tutti::testing {
namespace {

using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("a value that was set is got by everybody, whatever bytes it has") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto writer = bench.open();
    const auto reader = bench.open();
    const std::string odd{"\0\xff\n/", 4};
    for (const std::string& value : {std::string{}, std::string{"x"}, odd, std::string(100'003, 'y')}) {
      writer->set("key", value);
      CHECK(reader->get("key") == value);
    }
    writer->set(odd, "odd key");
    CHECK(reader->get(odd) == "odd key");
    writer->set("", "empty key");
    CHECK(reader->get("") == "empty key");
  });
}

TEST_CASE("a child of fork() is refused, and its parent goes on") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto store = bench.open();
    store->set("key", "value");
    const std::vector<std::string> keys{"key"};
    const pid_t child = ::fork();
    if (child == 0) {
      int refused = 0;
      const auto count = [&](const auto& call) {
        try {
          call();
        } catch (const Error& error) {
          refused += error.code() == ErrorCode::invalid_argument &&
                     std::string_view{error.what()}.find("fork()") != std::string_view::npos;
        }
      };
      count([&] { store->set("key", "of the child"); });
      count([&] { store->get("key"); });
      count([&] { store->check(keys); });
      count([&] { store->key_count(); });
      ::_exit(refused);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 4);
    CHECK(store->get("key") == "value");
  });
}

TEST_CASE("add counts, from nothing, through negative numbers, on what set wrote") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto store = bench.open();
    CHECK(store->add("n", 5) == 5);
    CHECK(store->add("n", -7) == -2);
    CHECK(store->get("n") == "-2");
    CHECK(store->add("n", 0) == -2);
    store->set("n", "9223372036854775800");
    CHECK(bench.open()->add("n", 7) == 9223372036854775807);
  });
}

TEST_CASE("a clone sees the same keys while another thread waits, and goes on alone") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    auto store = bench.open();
    if (bench.name == "file") {
      CHECK(error_of([&] { store->clone(); }).code() == ErrorCode::unsupported);
      return;
    }
    store->set_timeout(patience);
    const auto clone = store->clone();
    CHECK(clone->timeout() == patience);
    run_threads(2, [&](int thread) {
      if (thread == 0)
        CHECK(store->get("key") == "value");
      else
        clone->set("key", "value");
    });
    store.reset();
    CHECK(clone->get("key") == "value");
  });
}

TEST_CASE("add from many threads loses nothing") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    run_threads(5, [&](int) {
      const auto store = bench.open();
      for (int i = 0; i < 20; ++i) store->add("n", 1);
    });
    CHECK(bench.open()->add("n", 0) == 100);
  });
}

TEST_CASE("add to what is no number, or beyond 64 bits, is an error") {
  for_each_store([](const Bench& bench) {
    if (foreign_server()) return;  // reads numbers more leniently
    CAPTURE(bench.name);
    for (const char* value : {"x", "", "1x", " 1", "9223372036854775807", "99999999999999999999"}) {
      CAPTURE(value);
      const auto store = bench.open();
      store->set("n", value);
      CHECK(contains(error_of([&] { store->add("n", 1); }).what(), "number"));
      CHECK(bench.open()->get("n") == value);
    }
  });
}

TEST_CASE("compare_set stores where the expectation holds, and says what is there") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto store = bench.open();
    CHECK(store->compare_set("k", "something", "new") == "something");  // absent: nothing stored
    CHECK_FALSE(store->check(Keys{"k"}));
    CHECK(store->compare_set("k", "", "first") == "first");
    CHECK(store->compare_set("k", "", "second") == "first");
    CHECK(store->compare_set("k", "other", "second") == "first");
    CHECK(store->compare_set("k", "first", "second") == "second");
    CHECK(store->get("k") == "second");
    store->set("k", "");
    CHECK(store->compare_set("k", "", "third") == "third");
  });
}

TEST_CASE("compare_set lets exactly one of many in") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    std::atomic<int> winners{0};
    run_threads(7, [&](int i) {
      const std::string me = std::to_string(i);
      winners += bench.open()->compare_set("place", "", me) == me;
    });
    CHECK(winners == 1);
  });
}

TEST_CASE("wait ends when the last of its keys comes, by whatever operation") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const Keys keys{"a", "b", "c", "d", "e", "a"};
    run_threads(2, [&](int i) {
      const auto store = bench.open();
      if (i == 0) return store->wait(keys);
      store->set("a", "1");
      store->add("b", 1);
      store->append("c", "1");
      store->compare_set("d", "", "1");
      store->multi_set(std::vector<Store::KeyValue>{{"x", "1"}, {"e", "1"}});
    });
    CHECK(bench.open()->check(keys));
  });
}

TEST_CASE("get waits for its key") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    run_threads(2, [&](int i) {
      const auto store = bench.open();
      if (i == 0)
        CHECK(store->get("late") == "here");
      else
        store->set("late", "here");
    });
  });
}

TEST_CASE("a wait in vain ends at its deadline and names the keys; the store works on") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto store = bench.open();
    const auto other = bench.open();
    store->set("there", "1");
    const auto begin = Clock::now();
    const Error error = error_of([&] { store->wait_for(Keys{"there", "not there"}, 50ms); });
    CHECK(Clock::now() - begin >= 50ms);
    CHECK(Clock::now() - begin < patience / 2);
    CHECK(error.code() == ErrorCode::rendezvous);
    CHECK(contains(error.what(), "not there\""));
    CHECK(contains(error.what(), "0.05 s"));

    store->set_timeout(50ms);
    CHECK(contains(error_of([&] { store->get("nobody"); }).what(), "nobody\""));
    CHECK(contains(error_of([&] { store->multi_get(Keys{"there", "nobody"}); }).what(), "nobody\""));
    CHECK(store->timeout() == 50ms);
    store->set_timeout(patience);
    other->set("nobody", "came");
    CHECK(store->get("nobody") == "came");
    CHECK_NOTHROW(store->wait_for(Keys{}, 1ms));
  });
}

TEST_CASE("wait_for leaves the timeout as it is") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto store = bench.open();
    store->set_timeout(1234ms);
    CHECK_THROWS_AS(store->wait_for(Keys{"k"}, 1ms), Error);
    CHECK(store->timeout() == 1234ms);
  });
}

TEST_CASE("check and erase see what is there now") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto store = bench.open();
    CHECK(store->check(Keys{}));
    CHECK_FALSE(store->check(Keys{"a"}));
    CHECK_FALSE(store->erase("a"));
    CHECK(bench.open()->add("a", 1) == 1);  // a set would not be answered: it may still be under way
    CHECK(store->check(Keys{"a", "a"}));
    CHECK_FALSE(store->check(Keys{"a", "b"}));
    CHECK(store->erase("a"));
    CHECK_FALSE(bench.open()->check(Keys{"a"}));
  });
}

TEST_CASE("key_count counts keys, not writes") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto store = bench.open();
    const std::int64_t before = store->key_count();
    if (!foreign_server()) CHECK(before == 0);
    store->set("a", "1");
    store->set("a", "2");
    store->add("b", 1);
    CHECK(bench.open()->key_count() == before + 2);
    store->erase("a");
    CHECK(store->key_count() == before + 1);
  });
}

TEST_CASE("append makes a value and lengthens it, in one piece each time") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    run_threads(3, [&](int i) {
      const auto store = bench.open();
      for (int k = 0; k < 11; ++k) store->append("list", std::string(3, static_cast<char>('a' + i)));
      store->key_count();  // appends are not answered; this is, after them
    });
    const std::string list = bench.open()->get("list");
    CHECK(list.size() == 99);
    for (std::size_t i = 0; i < list.size(); i += 3) CHECK(list.substr(i, 3) == std::string(3, list[i]));
  });
}

TEST_CASE("multi_get returns values in order and waits for all of them") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    run_threads(2, [&](int i) {
      const auto store = bench.open();
      if (i == 0) {
        CHECK(store->multi_get(Keys{"b", "a", "b"}) == Keys{"2", "1", "2"});
        CHECK(store->multi_get(Keys{}).empty());
      } else {
        store->multi_set(std::vector<Store::KeyValue>{{"a", "1"}, {"b", "0"}, {"b", "2"}});
      }
    });
  });
}

TEST_CASE("keys and values that are too large are refused before anything is sent") {
  for_each_store([](const Bench& bench) {
    if (contains(bench.name, "memory")) return;
    CAPTURE(bench.name);
    const auto store = bench.open();
    CHECK(error_of([&] { store->set(std::string(9000, 'k'), ""); }).code() == ErrorCode::invalid_argument);
    CHECK(error_of([&] { store->set("k", std::string((8 << 20) + 1, 'v')); }).code() == ErrorCode::invalid_argument);
    for (const auto& call :
         std::vector<std::function<void()>>{[&] { store->queue_push(std::string(9000, 'k'), ""); },
                                            [&] { store->queue_push("k", std::string((8 << 20) + 1, 'v')); },
                                            [&] { store->queue_try_pop(std::string(9000, 'k')); }})
      CHECK(error_of(call).code() == ErrorCode::invalid_argument);
    const std::string largest(8 << 20, 'v');
    store->set("k", largest);
    CHECK(store->get("k") == largest);
  });
}

TEST_CASE(
    "views with different prefixes do not see each other, and waits of threads on one store do not disturb each "
    "other") {
  const auto memory = memory_store();
  run_threads(4, [&](int i) {
    const auto view = prefix_store("view " + std::to_string(i), memory);
    view->set_timeout(std::chrono::milliseconds{20 + i});
    for (int k = 0; k < 10; ++k) CHECK_THROWS_AS(view->wait(Keys{"nothing"}), Error);
    view->set("k", std::to_string(i));
    CHECK(view->get("k") == std::to_string(i));
    CHECK(view->timeout() == std::chrono::milliseconds{20 + i});
  });
  CHECK(memory->timeout() == 300s);
  CHECK(memory->get("view 2/k") == "2");
}

namespace {

/// A store of a user's own, who knows nothing of wait_for().
class ForeignStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override { inner_->set(key, value); }
  std::string get(std::string_view key) override { return inner_->get(key); }
  std::int64_t add(std::string_view key, std::int64_t delta) override { return inner_->add(key, delta); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return inner_->compare_set(key, expected, desired);
  }
  void wait(std::span<const std::string> keys) override {
    waited = timeout();
    if (!inner_->check(keys)) throw Error{ErrorCode::rendezvous, "not there"};
  }
  bool check(std::span<const std::string> keys) override { return inner_->check(keys); }
  bool erase(std::string_view key) override { return inner_->erase(key); }
  std::int64_t key_count() override { return inner_->key_count(); }
  void append(std::string_view key, std::string_view value) override { inner_->append(key, value); }
  std::vector<std::string> multi_get(std::span<const std::string> keys) override { return inner_->multi_get(keys); }
  void multi_set(std::span<const KeyValue> pairs) override { inner_->multi_set(pairs); }

  Milliseconds waited{0};

 private:
  std::shared_ptr<Store> inner_ = memory_store();
};

}  // namespace

TEST_CASE("a store of one's own without queues says so") {
  ForeignStore store;
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { store.queue_push("q", "v"); }, [&] { store.queue_pop("q"); },
                                          [&] { store.queue_length("q"); }, [&] { store.list_keys(); }}) {
    const Error error = error_of(call);
    CHECK(error.code() == ErrorCode::unsupported);
    CHECK(contains(error.what(), "a store of this kind"));
  }
}

TEST_CASE("a store of one's own that knows only wait() gets the deadline through its timeout, and the old one back") {
  ForeignStore store;
  store.set_timeout(5s);
  CHECK_THROWS_AS(store.wait_for(Keys{"k"}, 77ms), Error);
  CHECK(store.waited == 77ms);
  CHECK(store.timeout() == 5s);
}

TEST_CASE("errors name keys as the caller of a view does") {
  for_each_store([](const Bench& bench) {
    CAPTURE(bench.name);
    const auto view = prefix_store("j", prefix_store("tutti", bench.open()));
    view->set("word", "x");
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { view->wait_for(Keys{"key"}, 1ms); },
             [&] {
               view->wait_for(Keys{"key", "word"}, 1ms);
             },
             [&] { view->set_timeout(1ms), view->get("key"); },
             [&] {
               view->multi_get(Keys{"key", "word"});
             },
         }) {
      const Error error = error_of(call);
      CHECK(error.code() == ErrorCode::rendezvous);
      CHECK_MESSAGE(contains(error.what(), "\"key\""), error.what());
      CHECK_MESSAGE(!contains(error.what(), "tutti/j"), error.what());
    }
    view->set_timeout(patience);
    if (contains(bench.name, "tcp")) return;  // the server only closes the connection
    CHECK(contains(error_of([&] { view->add("word", 1); }).what(), "\"word\""));
  });
}

}  // namespace tutti::testing
