#include "transport/memory/copy_policy.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/transport/loose_ring.h"
#include "transport/memory/slot_ring.h"

namespace tutti::transport::testing {
namespace {

using std::chrono::microseconds;
using Way = StoreChoice::Way;

constexpr std::size_t slot = 32 * 1024;
constexpr microseconds quick{1}, slow{13};

void streaming_copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

/// The number of copies until one is timed, that one included.
int copies_until_timed(StoreChoice& path, Way others) {
  for (int copies = 1;; ++copies) {
    const Way way = path.next();
    if (way == Way::timed) return copies;
    REQUIRE(way == others);
    REQUIRE(copies < 1000);
  }
}

/// One whose first timed copy is next.
StoreChoice begun_path() {
  StoreChoice path{{.streaming = streaming_copy}};
  for (int i = 1; i < StoreChoice::first_timed; ++i) REQUIRE(path.next() == Way::plain);
  return path;
}

TEST_CASE("copies are plain while the timed ones are quick, and none is timed where no copy has been before") {
  CHECK(StoreChoice::first_timed > static_cast<int>(most_areas));
  StoreChoice path = begun_path();
  CHECK(path.next() == Way::timed);
  path.took(quick, slot);
  for (int i = 0; i < 10; ++i) {
    CHECK(copies_until_timed(path, Way::plain) == StoreChoice::timed_every);
    path.took(quick, slot);
  }
}

TEST_CASE("two slow copies in a row make the next ones go past the caches, and one quick copy ends it") {
  StoreChoice path = begun_path();
  for (int i = 0; i < 3; ++i) {
    CHECK(copies_until_timed(path, Way::plain) == (i == 0 ? 1 : StoreChoice::timed_every));
    path.took(slow, slot);
    CHECK(path.next() == Way::timed);
    path.took(slow, slot);
    for (int copies = StoreChoice::tried_first; copies < StoreChoice::tried_every; copies *= 2) {
      CHECK(copies_until_timed(path, Way::streaming) == copies);
      path.took(slow, slot);
    }
    for (int again = 0; again < 2; ++again) {
      CHECK(copies_until_timed(path, Way::streaming) == StoreChoice::tried_every);
      path.took(slow, slot);
    }
    CHECK(copies_until_timed(path, Way::streaming) == StoreChoice::tried_every);
    path.took(quick, slot);
  }
}

TEST_CASE("one slow copy between quick ones changes nothing") {
  StoreChoice path = begun_path();
  for (int i = 0; i < 10; ++i) {
    CHECK(copies_until_timed(path, Way::plain) == (i == 0 ? 1 : StoreChoice::timed_every));
    path.took(slow, slot);
    CHECK(path.next() == Way::timed);
    path.took(quick, slot);
  }
}

TEST_CASE("a copy to memory that is used for the first time is plain, and the next one is timed instead") {
  StoreChoice path{{.streaming = streaming_copy}};
  const std::vector<std::byte> from(slot, std::byte{7});
  std::vector<std::byte> to(slot);
  for (int i = 1; i < StoreChoice::first_timed + 10; ++i) path.copy(to.data(), from.data(), slot, true);
  CHECK(to == from);
  CHECK(path.next() == Way::timed);
}

TEST_CASE("the first copy that is timed may be any to memory that has been used, and later ones are timed as usual") {
  StoreChoice path{{.streaming = streaming_copy}};
  for (int i = 0; i < 2; ++i) {
    path.may_begin_to_time();
    CHECK(path.next() == Way::timed);
    path.took(slow, slot);
  }
  for (int i = 1; i < StoreChoice::tried_first; ++i) {
    path.may_begin_to_time();
    CHECK(path.next() == Way::streaming);
  }
  CHECK(path.next() == Way::timed);
}

TEST_CASE("the limit of a slow copy grows with its bytes") {
  for (const std::size_t bytes : {StoreChoice::least_bytes, slot, std::size_t{1} << 20}) {
    const auto limit = StoreChoice::slow_per_kib * static_cast<std::chrono::nanoseconds::rep>(bytes / 1024);
    for (const bool over : {false, true}) {
      StoreChoice path{{.streaming = streaming_copy}};
      for (int i = 0; i < 2; ++i) path.took(limit + std::chrono::nanoseconds{over ? 1 : 0}, bytes);
      CHECK((path.next() == Way::streaming) == over);
    }
  }
}

int streamed = 0;

void counted_copy(void* to, const void* from, std::size_t bytes) {
  ++streamed;
  std::memcpy(to, from, bytes);
}

/// How many of the copies of each size, 200 at a time, went past the caches. All arrive, and nothing else.
std::vector<int> streamed_of_sizes(const CopyPolicy& copy_policy) {
  const std::vector<std::byte> from(slot, std::byte{7});
  std::vector<int> counts;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, StoreChoice::least_bytes - 1, StoreChoice::least_bytes, slot}) {
    StoreChoice path{copy_policy};
    streamed = 0;
    for (int i = 0; i < 200; ++i) {
      std::vector<std::byte> to(slot);
      path.copy(to.data(), from.data(), bytes);
      CHECK(std::memcmp(to.data(), from.data(), bytes) == 0);
      CHECK((bytes == slot || to[bytes] == std::byte{0}));
    }
    counts.push_back(streamed);
  }
  return counts;
}

TEST_CASE("short payloads, and all where there are no other copy_policy, are plain; a wish is one for all long ones") {
  CHECK(streamed_of_sizes({}) == std::vector{0, 0, 0, 0, 0});
  CHECK(streamed_of_sizes({.streaming = counted_copy, .always = true}) == std::vector{0, 0, 0, 200, 200});
  const auto by_the_clock = streamed_of_sizes({.streaming = counted_copy});
  CHECK(std::vector(by_the_clock.begin(), by_the_clock.begin() + 3) == std::vector{0, 0, 0});
}

TEST_CASE("a ring writes long payloads as it is told") {
  for (const auto& [bytes, copies] : {std::pair<std::size_t, int>{4096, 0}, {slot, 1}}) {
    LooseRing ring{{.streaming = counted_copy, .always = true}};
    const std::vector<std::byte> payload(bytes, std::byte{3});
    streamed = 0;
    CHECK_FALSE(ring.put(payload));
    CHECK(streamed == copies);
    CHECK(std::memcmp(ring.memory->area(0, least_areas), payload.data(), bytes) == 0);
  }
}

}  // namespace
}  // namespace tutti::transport::testing
