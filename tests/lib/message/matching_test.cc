// Which receive gets which message: the order that MPI prescribes, and that it takes no longer the more there are.

#include "lib/message/matching.h"

#include <doctest/doctest.h>

#include <list>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/allocations.h"
#include "tests/support/sample.h"

namespace tutti::detail {
namespace {

using transport::testing::allocations;

TEST_CASE("a message goes to the earliest receive that fits, whatever that one leaves open") {
  Matching<char, int> matching;
  matching.post(1, any_tag, 'a');
  matching.post(any_source, 7, 'b');
  matching.post(1, 7, 'c');
  matching.post(any_source, any_tag, 'd');
  matching.post(1, 7, 'e');
  CHECK(matching.receive_for(2, 7) == 'b');
  CHECK(matching.receive_for(1, 7) == 'a');
  CHECK(matching.receive_for(1, 7) == 'c');
  CHECK(matching.receive_for(1, 7) == 'd');
  CHECK(matching.receive_for(2, 7) == std::nullopt);
  CHECK(matching.receive_for(1, 8) == std::nullopt);
  CHECK(matching.receive_for(1, 7) == 'e');
  CHECK(!matching.has_receives());
}

TEST_CASE("a receive gets the earliest message that fits, also from the middle of those that have come") {
  Matching<char, int> matching;
  matching.keep(1, 7, 10);
  matching.keep(2, 7, 20);
  matching.keep(1, 8, 30);
  matching.keep(1, 7, 40);
  matching.keep(2, 8, 50);
  CHECK(matching.message_for(any_source, 8) == 30);
  REQUIRE(matching.look_for(2, any_tag));
  CHECK(*matching.look_for(2, any_tag) == 20);
  CHECK(matching.look_for(3, any_tag) == nullptr);
  CHECK(matching.message_for(2, any_tag) == 20);
  CHECK(matching.message_for(2, 7) == std::nullopt);
  CHECK(matching.message_for(any_source, any_tag) == 10);
  CHECK(matching.message_for(any_source, any_tag) == 40);
  CHECK(matching.message_for(1, any_tag) == std::nullopt);
  CHECK(matching.message_for(any_source, any_tag) == 50);
  CHECK(matching.message_for(any_source, any_tag) == std::nullopt);
}

TEST_CASE("a forgotten message matches nothing") {
  Matching<char, int> matching;
  matching.post(1, 1, 'a');
  matching.keep(2, 2, 10);
  matching.clear();
  CHECK(!matching.has_receives());
  CHECK(matching.receive_for(1, 1) == std::nullopt);
  CHECK(matching.message_for(2, 2) == std::nullopt);
  matching.post(1, 1, 'b');
  CHECK(matching.receive_for(1, 1) == 'b');
}

/// The rules as they are written down: the first in a list.
class PlainMatching {
 public:
  void post(int source, int tag, int receive) { receives_.push_back({source, tag, receive}); }
  void keep(int source, int tag, int message) { messages_.push_back({source, tag, message}); }
  std::optional<int> receive_for(int source, int tag) {
    return take(receives_, [=](const Entry& entry) { return fits(entry.source, entry.tag, source, tag); });
  }
  std::optional<int> message_for(int source, int tag) {
    return take(messages_, [=](const Entry& entry) { return fits(source, tag, entry.source, entry.tag); });
  }

 private:
  struct Entry {
    int source, tag, item;
  };
  static bool fits(int wanted_source, int wanted_tag, int source, int tag) {
    return (wanted_source == any_source || wanted_source == source) && (wanted_tag == any_tag || wanted_tag == tag);
  }
  template <class Fits>
  static std::optional<int> take(std::list<Entry>& from, Fits&& fits) {
    for (auto it = from.begin(); it != from.end(); ++it) {
      if (!fits(*it)) continue;
      const int item = it->item;
      from.erase(it);
      return item;
    }
    return std::nullopt;
  }

  std::list<Entry> receives_, messages_;
};

TEST_CASE("random messages and receives are matched as by going through lists") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    Matching<int, int> matching;
    PlainMatching plain;
    const int sources = 1 + static_cast<int>(random() % 5), tags = 1 + static_cast<int>(random() % 200);
    const auto receives_in_ten = 3 + random() % 5;  // more of one kind wait
    for (int round = 0; round < 3000; ++round) {
      int source = static_cast<int>(random() % static_cast<unsigned>(sources));
      int tag = static_cast<int>(random() % static_cast<unsigned>(tags));
      if (random() % 10 < receives_in_ten) {
        if (random() % 4 == 0) source = any_source;
        if (random() % 4 == 0) tag = any_tag;
        const auto message = matching.message_for(source, tag);
        REQUIRE(message == plain.message_for(source, tag));
        if (message) continue;
        matching.post(source, tag, round);
        plain.post(source, tag, round);
      } else {
        const auto receive = matching.receive_for(source, tag);
        REQUIRE(receive == plain.receive_for(source, tag));
        if (receive) continue;
        matching.keep(source, tag, round);
        plain.keep(source, tag, round);
      }
    }
  }
}

struct CountedKey {
  int source = any_source;
  int tag = any_tag;

  static inline std::size_t compared = 0;
  friend bool operator==(const CountedKey& one, const CountedKey& other) {
    ++compared;
    return one.source == other.source && one.tag == other.tag;
  }
};
using CountedMatching = Matching<int, int, CountedKey>;

constexpr int many = 100'000;

/// How often keys were compared for each of `many` entries.
template <class Body>
double comparisons_for_each(Body&& body) {
  CountedKey::compared = 0;
  body();
  return static_cast<double>(CountedKey::compared) / many;
}

TEST_CASE("a hundred thousand that wait cost no more comparisons each than a few") {
  constexpr double few = 24;  // four queues to join, and four to leave, of one to three in a bucket
  const int tag_steps[] = {0, 1, 16, 1024, 65'536 / 8};
  testing::Lot lot{1, 5};
  for (const int step : tag_steps) {
    if (!lot.draws()) continue;
    CAPTURE(step);
    CountedMatching matching;
    const auto tag_of = [step](int i) { return static_cast<int>(std::int64_t{i} * step % (1 << 30)); };
    for (const bool wild : {false, true}) {
      CHECK(comparisons_for_each([&] {
              for (int i = 0; i < many; ++i) matching.post(wild ? any_source : i % 3, tag_of(i), i);
            }) < few);
      CHECK(comparisons_for_each([&] {
              for (int i = many; i-- > 0;) REQUIRE(matching.receive_for(i % 3, tag_of(i)));
            }) < few);
      CHECK(!matching.has_receives());
      CHECK(comparisons_for_each([&] {
              for (int i = 0; i < many; ++i) matching.keep(i % 3, tag_of(i), i);
            }) < few);
      CHECK(comparisons_for_each([&] {
              for (int i = many; i-- > 0;) REQUIRE(matching.message_for(wild ? any_source : i % 3, tag_of(i)));
            }) < few);
    }
  }
}

TEST_CASE("once warm, matching allocates nothing, though every message has a tag of its own") {
  Matching<int, int> matching;
  int tag = 0;
  const auto round = [&] {
    for (int i = 0; i < 100; ++i) matching.post(1, tag + i, i);
    for (int i = 100; i-- > 0;) REQUIRE(matching.receive_for(1, tag + i));
    for (int i = 0; i < 100; ++i) matching.keep(1, tag + i, i);
    for (int i = 100; i-- > 0;) REQUIRE(matching.message_for(any_source, tag + i));
    tag += 100;
  };
  round();
  const std::size_t before = allocations();
  for (int i = 0; i < 100; ++i) round();
  CHECK(allocations() == before);
}

}  // namespace
}  // namespace tutti::detail
