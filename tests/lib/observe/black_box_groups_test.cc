// Which communicators a box tells of.

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/lib/observe/boxed.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using black_box::Snapshot;

std::vector<std::uint64_t> groups_of(const Snapshot& seen) {
  std::vector<std::uint64_t> ids;
  for (const black_box::Member& member : seen.groups) ids.push_back(member.group);
  return ids;
}

TEST_CASE("the world and the communicators that are in use stay, however many others were made and have ended") {
  constexpr std::uint64_t world = 2, kept = 3;
  Boxed made;
  made.box->add_group(world, 4, 2);
  made.box->add_group(kept, 2, 1);
  for (std::uint64_t id = 100; id < 300; ++id) {
    made.box->add_group(id, 2, 0);
    made.box->end_group(id);
  }
  const Snapshot seen = made.read();
  REQUIRE(seen.groups.size() == black_box::group_count);
  CHECK(groups_of(seen)[0] == world);
  CHECK(groups_of(seen)[1] == kept);
  CHECK(seen.groups[1].rank == 1);
  CHECK(seen.groups[1].number == 2);
  CHECK(groups_of(seen).back() == 299);  // what has ended is told of until its place is needed
  CHECK(seen.groups.back().number == 202);
}

TEST_CASE("where more communicators are in use than a box has places the world and the newest ones stay") {
  Boxed made;
  for (std::uint64_t id = 1; id <= 100; ++id) made.box->add_group(id, 2, 0);
  made.box->end_group(1);  // the world of a program that goes on with others
  made.box->add_group(101, 2, 0);
  const std::vector<std::uint64_t> ids = groups_of(made.read());
  REQUIRE(ids.size() == black_box::group_count);
  CHECK(ids[0] == 1);
  CHECK(ids[1] == 101 - black_box::group_count + 2);
  CHECK(ids.back() == 101);
}

TEST_CASE("the boxes of a world agree on a number, which no other world has") {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  std::set<std::uint64_t> worlds{0};
  for (const std::size_t connected : {1U, 2U}) {
    run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) { comm.barrier(); });
    for (const char* const rank : {"/0", "/1"}) {
      const Descriptor file(::open((folder.name + rank).c_str(), O_RDONLY | O_CLOEXEC));
      worlds.insert(black_box::read(file, rank).world);
    }
    CHECK(worlds.size() == 1 + connected);
  }
}

}  // namespace
}  // namespace tutti::testing
