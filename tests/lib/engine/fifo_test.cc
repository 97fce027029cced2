// Queues and pools that keep their memory.

#include "lib/engine/fifo.h"

#include <doctest/doctest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "lib/engine/pool.h"
#include "tests/support/allocations.h"

namespace tutti::detail {
namespace {

// ---- Fifo --------------------------------------------------------------------------------------------------------

template <class T>
void check_same(const Fifo<T>& fifo, const std::deque<T>& expected) {
  REQUIRE(fifo.size() == expected.size());
  REQUIRE(fifo.empty() == expected.empty());
  for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(fifo[i] == expected[i]);
}

TEST_CASE("a queue grows in whatever place of its ring it begins") {
  for (const std::size_t filled : {0UL, 1UL, 7UL, 8UL, 9UL, 15UL, 16UL, 17UL, 33UL, 100UL}) {
    for (std::size_t begin = 0; begin <= filled; ++begin) {
      CAPTURE(filled);
      CAPTURE(begin);
      Fifo<std::size_t> fifo;
      std::deque<std::size_t> expected;
      const auto push = [&](std::size_t value) {
        fifo.push(value);
        expected.push_back(value);
      };
      for (std::size_t i = 0; i < filled; ++i) push(i);
      for (std::size_t i = 0; i < begin; ++i) {
        REQUIRE(fifo.front() == expected.front());
        REQUIRE(fifo.pop() == expected.front());
        expected.pop_front();
      }
      for (std::size_t i = 0; i < 2 * filled + 1; ++i) push(1000 + i);
      check_same(fifo, expected);
    }
  }
}

TEST_CASE("a queue does what std::deque does, through any number of turns of its ring") {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    Fifo<unsigned> fifo;
    std::deque<unsigned> expected;
    for (unsigned round = 0; round < 5000; ++round) {
      if (expected.empty() || random() % 20 < 10 + expected.size() % 3) {
        fifo.push(round);
        expected.push_back(round);
      } else {
        REQUIRE(fifo.pop() == expected.front());
        expected.pop_front();
      }
      if (random() % 500 == 0) {
        fifo.clear();
        expected.clear();
      }
      if (round % 16 == 0) check_same(fifo, expected);
    }
  }
}

TEST_CASE("a queue takes what can only be moved, and what is popped is not kept") {
  Fifo<std::shared_ptr<int>> shared;
  Fifo<std::unique_ptr<int>> unique;
  for (int i = 0; i < 20; ++i) {
    shared.push(std::make_shared<int>(i));
    unique.push(std::make_unique<int>(i));
  }
  for (int i = 0; i < 20; ++i) {
    CHECK(*unique.pop() == i);
    const auto popped = shared.pop();
    CHECK(*popped == i);
    CHECK(popped.use_count() == 1);
  }
}

TEST_CASE("a queue that is warm allocates nothing") {
  Fifo<int> fifo;
  for (int i = 0; i < 16; ++i) fifo.push(i);
  while (!fifo.empty()) fifo.pop();
  const std::size_t before = transport::testing::allocations();
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 16 - round % 5; ++i) fifo.push(i);
    while (!fifo.empty()) fifo.pop();
  }
  CHECK(transport::testing::allocations() == before);
}

// ---- Pool --------------------------------------------------------------------------------------------------------

struct Counted {
  explicit Counted(std::atomic<int>& objects) : alive(objects) { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  std::atomic<int>& alive;
  long uses = 0;  // no atomic: one thread at a time has the object
  std::shared_ptr<Pool<Counted>> home{};
};

TEST_CASE("a pool gives back what it was given, each object once, and ends with those that are free") {
  std::atomic<int> alive{0};
  {
    Pool<Counted> pool;
    CHECK(pool.take() == nullptr);
    auto first = std::make_unique<Counted>(alive);
    auto second = std::make_unique<Counted>(alive);
    const Counted* const addresses[] = {first.get(), second.get()};
    pool.give(std::move(first));
    pool.give(std::move(second));
    const auto one = pool.take();
    auto other = pool.take();
    CHECK(one != other);
    CHECK((one.get() == addresses[0] || one.get() == addresses[1]));
    CHECK((other.get() == addresses[0] || other.get() == addresses[1]));
    CHECK(pool.take() == nullptr);
    pool.give(std::move(other));
    CHECK(alive == 2);
  }
  CHECK(alive == 0);
}

TEST_CASE("threads share a pool's objects, and none is with two at a time") {
  constexpr int threads = 4, rounds = 2000;
  std::atomic<int> alive{0};
  std::atomic<int> made{0};
  Pool<Counted> pool;
  std::vector<std::jthread> running;
  for (int thread = 0; thread < threads; ++thread)
    running.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        auto object = pool.take();
        if (!object) {
          object = std::make_unique<Counted>(alive);
          ++made;
        }
        ++object->uses;
        pool.give(std::move(object));
      }
    });
  running.clear();
  CHECK(made <= threads);
  CHECK(alive == made);
  long uses = 0;
  while (const auto object = pool.take()) uses += object->uses;
  CHECK(uses == long{threads} * rounds);
  CHECK(alive == 0);
}

/// As an operation does when the last handle is dropped.
void recycle(Counted* object) {
  const auto home = std::move(object->home);
  home->give(std::unique_ptr<Counted>{object});
}

TEST_CASE("an object that comes back when nobody else knows its pool ends with it") {
  std::atomic<int> alive{0};
  auto pool = std::make_shared<Pool<Counted>>();
  const std::weak_ptr<Pool<Counted>> known = pool;
  std::vector<Counted*> objects;
  for (int i = 0; i < 8; ++i) {
    objects.push_back(new Counted{alive});
    objects.back()->home = pool;
  }
  pool.reset();
  {
    std::vector<std::jthread> running;
    for (Counted* const object : objects) running.emplace_back([object] { recycle(object); });
  }
  CHECK(known.expired());
  CHECK(alive == 0);
}

}  // namespace
}  // namespace tutti::detail
