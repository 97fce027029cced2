#include <doctest/doctest.h>
#include <fcntl.h>

#include <array>
#include <cstddef>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/observe/black_box_reader.h"
#include "tests/support/scratch.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using black_box::OperationRecord;
using black_box::Snapshot;
using black_box::State;

TEST_CASE("messages that are repeated are noted like the first") {
  struct Shape {
    int tag;
    std::size_t count;
  };
  constexpr std::array<Shape, 4> shapes{{{1, 10}, {2, 10}, {1, 20}, {3, 1000}}};
  constexpr std::array<std::size_t, 12> order{0, 0, 0, 1, 0, 2, 2, 1, 1, 3, 3, 0};
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  run_ranks({.ranks = 2, .kind = Kind::shm}, [&](Communicator& comm) {
    for (const std::size_t which : order) {
      const std::vector<float> out(shapes[which].count);
      std::vector<float> in(shapes[which].count);
      const int other = 1 - comm.rank();
      if (which == 3 && comm.rank() == 0) {
        comm.send(out, other, {.tag = shapes[which].tag});
        comm.recv(in, other, {.tag = shapes[which].tag});
      } else {
        comm.sendrecv(out, other, in, other, {.tag = shapes[which].tag});
      }
    }
  });
  const Descriptor file(::open((folder.name + "/0").c_str(), O_RDONLY | O_CLOEXEC));
  const Snapshot seen = black_box::read(file, "0");
  REQUIRE(seen.entries.size() == 2 * order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::array<int, 2> noted{};  // sends and receives; the first sendrecv() begins with its receive
    for (const OperationRecord& entry : {seen.entries[2 * i], seen.entries[2 * i + 1]}) {
      ++noted[entry.call.collective == black_box::receive ? 1 : 0];
      CHECK(entry.call.root == 1);
      CHECK(entry.call.tag == shapes[order[i]].tag);
      CHECK(entry.call.count == shapes[order[i]].count);
      CHECK(entry.bytes == 4 * shapes[order[i]].count);
      CHECK(entry.call.started > 0);
      CHECK(entry.state == State::done);
    }
    CHECK(noted == std::array{1, 1});
  }
}

}  // namespace
}  // namespace tutti::testing
