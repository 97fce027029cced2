#include "transport/store_path.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace tutti::transport::testing {
namespace {

using std::chrono::microseconds;
using Way = StorePath::Way;

constexpr std::size_t slot = 32 * 1024;
constexpr microseconds quick{1}, slow{13};

void streaming_copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

/// So many copies until one is timed, that one included.
int copies_until_timed(StorePath& path, Way others) {
  for (int copies = 1;; ++copies) {
    const Way way = path.next();
    if (way == Way::timed) return copies;
    REQUIRE(way == others);
    REQUIRE(copies < 1000);
  }
}

TEST_CASE("copies are plain while the timed ones are quick") {
  StorePath path{{.streaming = streaming_copy}};
  for (int i = 0; i < 10; ++i) {
    CHECK(copies_until_timed(path, Way::plain) == StorePath::timed_every);
    path.took(quick, slot);
  }
}

TEST_CASE("two slow copies in a row make the next ones go past the caches, and one quick copy ends it") {
  StorePath path{{.streaming = streaming_copy}};
  for (int i = 0; i < 3; ++i) {
    CHECK(copies_until_timed(path, Way::plain) == StorePath::timed_every);
    path.took(slow, slot);
    CHECK(path.next() == Way::timed);
    path.took(slow, slot);
    for (int again = 0; again < 3; ++again) {
      CHECK(copies_until_timed(path, Way::streaming) == StorePath::tried_every);
      path.took(slow, slot);
    }
    CHECK(copies_until_timed(path, Way::streaming) == StorePath::tried_every);
    path.took(quick, slot);
  }
}

TEST_CASE("one slow copy between quick ones changes nothing") {
  StorePath path{{.streaming = streaming_copy}};
  for (int i = 0; i < 10; ++i) {
    CHECK(copies_until_timed(path, Way::plain) == StorePath::timed_every);
    path.took(slow, slot);
    CHECK(path.next() == Way::timed);
    path.took(quick, slot);
  }
}

TEST_CASE("what is slow goes by the number of bytes") {
  for (const std::size_t bytes : {StorePath::least_bytes, slot, std::size_t{1} << 20}) {
    const auto limit = StorePath::slow_per_kib * static_cast<std::chrono::nanoseconds::rep>(bytes / 1024);
    for (const bool over : {false, true}) {
      StorePath path{{.streaming = streaming_copy}};
      for (int i = 0; i < 2; ++i) path.took(limit + std::chrono::nanoseconds{over ? 1 : 0}, bytes);
      CHECK((path.next() == Way::streaming) == over);
    }
  }
}

int streamed = 0;

TEST_CASE("short payloads, and all where there are no other stores, are plain; a wish is one for all long ones") {
  const std::vector<std::byte> from(slot, std::byte{7});
  for (const Stores& stores : {Stores{}, Stores{.streaming =
                                                    [](void*to, const void*bytes, std::size_t size) {
                                                      ++streamed;
                                                      std::memcpy(to, bytes, size);
                                                    },
                                         .always = true}}) {
    StorePath path{stores};
    streamed = 0;
    int copies = 0;
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, StorePath::least_bytes - 1, StorePath::least_bytes, slot}) {
      for (int i = 0; i < 20; ++i) {
        std::vector<std::byte> to(slot);
        path.copy(to.data(), from.data(), bytes);
        CHECK(std::memcmp(to.data(), from.data(), bytes) == 0);
        CHECK((bytes == slot || to[bytes] == std::byte{0}));
        copies += bytes >= StorePath::least_bytes ? 1 : 0;
      }
    }
    CHECK(streamed == (stores.streaming ? copies : 0));
  }
}

}  // namespace
}  // namespace tutti::transport::testing
