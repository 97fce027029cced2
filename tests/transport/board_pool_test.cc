// Memory that one rank gives to one group after the other.

#include "transport/shm/board_pool.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/system_calls.h"
#include "tests/support/sizes.h"
#include "tutti/error.h"

namespace tutti::transport::testing {

using tutti::testing::mebibyte;

namespace {

constexpr std::size_t page = 4096;

/// The owner's end of a chunk, and another rank's.
struct Chunk {
  std::shared_ptr<PoolChunk> own = PoolChunk::make(PoolChunk::places_in_bucket, 4 * page);
  std::shared_ptr<PoolChunk> other = std::get<std::shared_ptr<PoolChunk>>(PoolChunk::map(own->descriptor()));
};

struct ::stat status_of(const Descriptor& memory) {
  struct ::stat status {};
  REQUIRE(::fstat(memory.get(), &status) == 0);
  return status;
}

std::size_t reserved_bytes(const Descriptor& memory) {
  return static_cast<std::size_t>(status_of(memory).st_blocks) * 512;
}

bool is_filled(const std::byte* bytes, std::size_t size, int value) {
  return std::all_of(bytes, bytes + size, [value](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

TEST_CASE("the members of a group read each other's bytes, under the group's name only") {
  Chunk chunk;
  CHECK(chunk.other->enter(2) == nullptr);
  const auto mine = chunk.own->give(2, {page, page, page}, 2);
  std::strcpy(reinterpret_cast<char*>(mine.get()), "hello");
  CHECK(chunk.other->enter(4) == nullptr);
  const auto theirs = chunk.other->enter(2);
  REQUIRE(theirs);
  CHECK(theirs != mine);  // mapped twice
  CHECK(std::strcmp(reinterpret_cast<const char*>(theirs.get()), "hello") == 0);
  CHECK(chunk.other->enter(2) == nullptr);  // all have come
}

TEST_CASE("a place is the next group's once all members have left, and clean") {
  Chunk chunk;
  std::vector<std::shared_ptr<std::byte>> others;
  for (Channel name = 2; name < 2 + 2 * PoolChunk::places_in_bucket; name += 2)
    others.push_back(chunk.own->give(name, {page, page, page}, 2));
  CHECK(!chunk.own->has_free_place(100));
  std::memset(others[3].get(), 0x5a, page);
  std::byte* const where = others[3].get();
  others[3].reset();
  CHECK(!chunk.own->has_free_place(100));  // one has not come yet, and finds what was left
  auto late = chunk.other->enter(2 + 2 * 3);
  REQUIRE(late);
  CHECK(is_filled(late.get(), page, 0x5a));
  CHECK(!chunk.own->has_free_place(100));
  late.reset();
  REQUIRE(chunk.own->has_free_place(100));
  const auto next = chunk.own->give(100, {2 * page, 2 * page, 2 * page}, 2);
  CHECK(next.get() == where);
  CHECK(is_filled(next.get(), 2 * page, 0));
  CHECK(chunk.other->enter(2 + 2 * 3) == nullptr);
}

TEST_CASE("a place whose group has failed is free though a member never came, and not before the others have left") {
  Chunk chunk;
  auto mine = chunk.own->give(2, {page, page, page}, 3);
  auto theirs = chunk.other->enter(2);
  mine.reset();
  chunk.own->withdraw(2);
  CHECK(chunk.other->enter(2) == nullptr);
  theirs.reset();
  for (Channel name = 4; name < 4 + 2 * PoolChunk::places_in_bucket; name += 2) {
    REQUIRE(chunk.own->has_free_place(name));
    mine = chunk.own->give(name, {page, page, page}, 2);
    mine.reset();
    chunk.own->withdraw(name);  // nobody came
  }
  CHECK(chunk.own->has_free_place(100));
}

TEST_CASE("memory of places that are free goes back to the system, but for some") {
  const auto own = PoolChunk::make(PoolChunk::places_in_bucket, std::size_t{4} << 20);
  const auto other = std::get<std::shared_ptr<PoolChunk>>(PoolChunk::map(own->descriptor()));
  const std::size_t before = reserved_bytes(own->descriptor());
  CHECK(before < 16 * page);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<std::byte>> held;
    for (Channel name = 2; name < 2 + 2 * PoolChunk::places_in_bucket; name += 2) {
      held.push_back(own->give(name, {std::size_t{3} << 20, std::size_t{3} << 20, page}, 2));
      held.push_back(other->enter(name));
      CHECK(is_filled(held.back().get(), page, 0));
      std::memset(held.back().get(), 0x5a, page);
    }
    CHECK(reserved_bytes(own->descriptor()) >= PoolChunk::places_in_bucket * (std::size_t{3} << 20));
    held.clear();
    CHECK(reserved_bytes(own->descriptor()) <= before + PoolChunk::most_kept);
  }
}

TEST_CASE("memory that the system does not take back is clean for the next group all the same") {
  constexpr std::size_t place_bytes = PoolChunk::most_kept;
  const auto own = PoolChunk::make(PoolChunk::places_in_bucket, place_bytes);
  const auto use = [&](std::size_t groups) {
    std::vector<std::shared_ptr<std::byte>> held;
    for (Channel name = 2; held.size() < groups; name += 2) {
      held.push_back(own->give(name, {page, page, page}, 1));
      CHECK(is_filled(held.back().get(), page, 0));
      std::memset(held.back().get(), 0x5a, page);
    }
    return held;
  };
  auto held = use(2);
  REQUIRE(::mlock(held[1].get(), page) == 0);  // as in a program that has called mlockall
  held.clear();                                // more than is kept
  held = use(2);
  held.clear();
  held = use(PoolChunk::places_in_bucket);
}

TEST_CASE("a place for which memory is refused is clean for the next group") {
  Chunk chunk;
  auto place = chunk.own->give(2, {page, page, page}, 1);
  std::memset(place.get(), 0x5a, page);
  place.reset();
  system_calls::refuse(SystemCall::fallocate, ENOSPC, 1);
  CHECK_THROWS_AS(chunk.own->give(4, {2 * page, 2 * page, 2 * page}, 1), Error);
  system_calls::refuse_none();
  place = chunk.own->give(6, {page, page, page}, 1);
  CHECK(is_filled(place.get(), page, 0));
}

TEST_CASE("of memory that is refused in part, nothing stays reserved") {
  const auto own = PoolChunk::make(PoolChunk::places_in_bucket, 16 * mebibyte);
  const std::size_t before = reserved_bytes(own->descriptor());
  system_calls::refuse(SystemCall::fallocate, ENOSPC, 3);
  CHECK_THROWS_AS(own->give(2, {16 * mebibyte, 16 * mebibyte, page}, 1), Error);
  system_calls::refuse_none();
  CHECK(reserved_bytes(own->descriptor()) == before);
}

TEST_CASE("members that come and leave at the same time neither lose a place nor share it with another group") {
  constexpr int rounds = 2000;
  Chunk chunk;
  const auto word = [](const std::shared_ptr<std::byte>& place) {
    return std::atomic_ref<Channel>(*reinterpret_cast<Channel*>(place.get()));
  };
  const auto give_up = Clock::now() + std::chrono::seconds(30);
  const auto comes = [give_up](const auto& what) {
    while (!what() && Clock::now() < give_up) std::this_thread::yield();
    return what();
  };
  std::atomic<Channel> arrived{0};
  int wrong = 0;
  std::thread member([&] {
    for (Channel next = 2; next < 2 + 2 * rounds; next += 2) {
      std::shared_ptr<std::byte> place;
      const bool in_time = comes([&] { return place || (place = chunk.other->enter(next)); });
      arrived.store(next);
      if (!in_time || !comes([&] { return word(place).load() != 0; }) || word(place).load() != next) ++wrong;
    }
  });
  for (Channel next = 2; next < 2 + 2 * rounds; next += 2) {
    if (!comes([&] { return chunk.own->has_free_place(next); })) break;
    const auto place = chunk.own->give(next, {page, page, page}, 2);
    word(place).store(next);
    comes([&] { return arrived.load() >= next; });
  }
  member.join();
  CHECK(wrong == 0);
}

TEST_CASE("memory that is no chunk is refused") {
  const auto refusal = [](const Descriptor& memory) {
    const auto mapped = PoolChunk::map(memory);
    const auto* const why = std::get_if<std::string>(&mapped);
    return why ? *why : "";
  };
  CHECK(refusal(make_memory("stranger", page).descriptor) == "0 places of 0 bytes do not fill 4096 bytes");
  NewMemory huge = make_memory("stranger", 4 * page);
  const std::array<std::uint64_t, 2> lie{8, std::uint64_t{1} << 62};
  std::memcpy(huge.memory.get(), lie.data(), sizeof lie);
  CHECK(refusal(huge.descriptor).find("do not fill") != std::string::npos);
  const Descriptor loose(::memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(loose.get(), 2 * page) == 0);
  CHECK(refusal(loose) == "its size could still change");
}

/// The number of chunks that this process has mapped.
std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("tutti-board") != std::string::npos ? 1U : 0U;
  REQUIRE(found > 0);
  return found;
}

// ---- Pools -----------------------------------------------------------------------------------------------------

struct Pools {
  BoardPool first{0};
  BoardPool second{1};
  std::set<ino_t> chunks;
  int handed_over = 0;
  std::string trouble;  // why the second cannot take what it is handed

  std::shared_ptr<std::byte> give(Channel name, std::size_t bytes) {
    constexpr std::array members{0, 1};
    const MemoryNeed need{.bytes = bytes, .reserved = bytes, .cleared = bytes};
    return first.give(name, members, need, [&](int peer, const Descriptor& chunk) {
      CHECK(peer == 1);
      ++handed_over;
      chunks.insert(status_of(chunk).st_ino);
      if (trouble.empty()) return second.add(0, name, chunk);
      second.add_refused(0, name, trouble);
    });
  }
};

TEST_CASE("a place that is kept gives back what was populated beyond what is reserved") {
  const auto own = PoolChunk::make(PoolChunk::places_in_bucket, 16 * page);
  const auto before = reserved_bytes(own->descriptor());
  auto place = own->give(2, {16 * page, 4 * page, 0}, 1);
  CHECK(reserved_bytes(own->descriptor()) == before + 4 * page);
  std::fill_n(place.get(), 16 * page, std::byte{1});
  CHECK(reserved_bytes(own->descriptor()) == before + 16 * page);
  place.reset();
  CHECK(reserved_bytes(own->descriptor()) == before + 4 * page);
  place = own->give(4, {16 * page, 2 * page, 2 * page}, 1);
  CHECK(std::all_of(place.get(), place.get() + 2 * page, [](std::byte byte) { return byte == std::byte{0}; }));
  place.reset();
  CHECK(reserved_bytes(own->descriptor()) == before + 4 * page);  // as much as a group has reserved once
}

TEST_CASE("thousands of groups at a time take a few chunks, and each finds its memory") {
  constexpr Channel groups = 5000;
  Pools pools;
  std::vector<std::shared_ptr<std::byte>> held;
  for (Channel name = 2; name < 2 * groups; name += 2) {
    held.push_back(pools.give(name * 0x1234567, 3 * page));
    const auto theirs = pools.second.find(name * 0x1234567, 0, page);
    REQUIRE(theirs);
    std::memcpy(held.back().get(), &name, sizeof name);
    CHECK(std::memcmp(theirs.get(), &name, sizeof name) == 0);
  }
  CHECK(pools.handed_over < 20);
}

TEST_CASE("a place that is too small for what a member wants is not entered") {
  const auto chunk = PoolChunk::make(PoolChunk::places_in_bucket, page);
  const auto given = chunk->give(2, {page, page, page}, 2);
  BoardPool pool{1};
  pool.add(0, 2, chunk->descriptor());
  CHECK(pool.find(2, 0, page + 1) == nullptr);
  CHECK(pool.find(2, 0, page));
}

TEST_CASE("groups that come one after the other need the memory of one") {
  Pools pools;
  for (Channel name = 2; name < 2000; name += 2) {
    const auto mine = pools.give(name, 3 * page);
    const auto theirs = pools.second.find(name, 0, page);
    CHECK(theirs);
  }
  CHECK(pools.handed_over == 1);
}

TEST_CASE("a member that is late finds the place of a failed group, and a thousand such groups take no more memory") {
  constexpr Channel late = 1000, eighth = late + 2 * 7;
  Pools pools;
  for (Channel name = 2; name < 2000; name += 2) {
    pools.give(name, 3 * page).reset();
    for (int time = 0; time < 2; ++time) pools.first.group_failed(name);
    if (name == eighth) CHECK(pools.second.find(late, 0, page));
    pools.second.forget(name);
  }
  CHECK(pools.second.find(2, 0, page) == nullptr);
  CHECK(pools.chunks.size() <= 2);
}

TEST_CASE("a rank that gives a place knows whether another one sleeps until it comes") {
  Pools pools;
  pools.give(2, page);
  CHECK(pools.second.find(4, 0, page) == nullptr);
  CHECK(!pools.first.is_awaited());
  pools.second.begin_to_wait();
  CHECK(pools.first.is_awaited());
  pools.second.end_waiting();
  CHECK(!pools.first.is_awaited());

  pools.second.forget(4);
  pools.second.begin_to_wait();
  CHECK(!pools.first.is_awaited());
  CHECK(pools.second.find(6, 0, page) == nullptr);  // missed only now
  CHECK(pools.first.is_awaited());
  pools.second.end_waiting();
  CHECK(!pools.first.is_awaited());
}

TEST_CASE("a chunk that could not be taken is told of once, and comes again for the next group") {
  Pools pools;
  pools.trouble = "Too many open files";
  auto mine = pools.give(2, page);
  CHECK_THROWS_WITH_AS(pools.second.find(2, 0, page), "cannot take the memory that rank 0 shares: Too many open files",
                       Error);
  mine.reset();
  pools.first.group_failed(2);
  pools.second.forget(2);

  pools.trouble.clear();
  CHECK(pools.second.find(4, 0, page) == nullptr);  // not given yet, and no reason to complain again
  const auto next = pools.give(4, page);
  CHECK(pools.second.find(4, 0, page));
  CHECK(pools.handed_over == 2);
}

TEST_CASE("a chunk that could not be taken is told of to each group that needs it, and to no other") {
  Pools pools;
  pools.trouble = "Too many open files";
  const auto one = pools.give(2, page);
  const auto other = pools.give(4, page);
  CHECK(pools.second.find(6, 0, page) == nullptr);  // not given yet
  CHECK_THROWS_AS(pools.second.find(4, 0, page), Error);
  CHECK_THROWS_AS(pools.second.find(2, 0, page), Error);

  pools.trouble.clear();
  const auto next = pools.give(6, page);
  for (const Channel name : {Channel{6}, Channel{4}, Channel{2}}) CHECK(pools.second.find(name, 0, page));
}

TEST_CASE("a rank that is far ahead with many groups sends a chunk with some of them") {
  Pools pools;
  std::vector<std::shared_ptr<std::byte>> given;
  for (Channel name = 2; name <= 400; name += 2) given.push_back(pools.give(name, page));
  CHECK(std::cmp_less_equal(pools.handed_over, 16 * pools.chunks.size()));
  for (Channel name = 2; name <= 400; name += 2) CHECK(pools.second.find(name, 0, page));
}

TEST_CASE("a rank that no other group has told of a chunk gets it, however many groups of others are incomplete") {
  BoardPool first{0}, third{2};
  std::vector<std::shared_ptr<std::byte>> given;
  const auto give = [&](Channel name, std::array<int, 2> members) {
    given.push_back(first.give(name, members, {page, page, page}, [&](int peer, const Descriptor& chunk) {
      if (peer == 2) third.add(0, name, chunk);
    }));
  };
  for (Channel name = 2; name <= 400; name += 2) give(name, {0, 1});
  for (Channel name = 402; name <= 440; name += 2) {
    give(name, {0, 2});
    CHECK(third.find(name, 0, page));
  }
}

TEST_CASE("a chunk is sent until a group is complete in it, and one that comes twice is one") {
  Pools pools;
  const auto first = pools.give(2, page);
  const std::size_t before = mappings();
  const auto second = pools.give(4, page);
  CHECK(pools.handed_over == 2);
  CHECK(mappings() == before);
  pools.second.add_refused(0, 6, "Too many open files");
  CHECK(pools.second.find(4, 0, page));
  const auto third = pools.give(6, page);
  CHECK(pools.handed_over == 2);
  CHECK(pools.second.find(6, 0, page));
  CHECK(pools.second.find(2, 0, page));
}

}  // namespace
}  // namespace tutti::transport::testing
