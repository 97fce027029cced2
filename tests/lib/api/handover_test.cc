// Memory on its way between ranks whose call fails.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "lib/board/window.h"
#include "lib/engine/engine.h"
#include "tests/support/world.h"
#include "transport/transport.h"
#include "tutti/allocate.h"

namespace tutti::testing {
namespace {

/// Descriptors of memory for allocate() that this process holds.
int open_windows() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code closed;  // one that was listed may have gone
    const std::string name = std::filesystem::read_symlink(entry.path(), closed).string();
    if (name.find("tutti-window") != std::string::npos) ++count;
  }
  return count;
}

/// Rank 0 does what allocate() does for `count` integers, but leaves first. `agrees`: it has compared the sizes by
/// then.
void hand_over_late(Communicator& world, std::optional<Communicator>& pair, std::size_t count, bool agrees) {
  const detail::Group& group = detail::Internals::state(*pair)->group;
  detail::Engine& engine = *group.context().engine;
  transport::Transport& transport = *group.shared_memory();
  const transport::Channel name = detail::name_of_window(group.id(), 1);
  if (agrees) {
    const std::uint64_t bytes = count * sizeof(int);
    std::vector<std::uint64_t> all(2);
    pair->all_gather(std::span{&bytes, 1}, all);
  }
  pair.reset();
  world.barrier();  // the other rank has failed
  engine.exclusively([&] {
    const std::vector<int> members{0, 1};
    CHECK(transport.shared_memory(name, members, 2 * count * sizeof(int)) != nullptr);
  });
}

TEST_CASE("memory for a rank whose allocate() has failed is dropped when it comes") {
  constexpr std::size_t count = 10'240;
  for (const bool agrees : {false, true}) {
    CAPTURE(agrees);
    run_ranks({.ranks = 2, .kind = Kind::shm}, [=](Communicator& world) {
      std::optional<Communicator> pair{world.split(0)};
      if (world.rank() == 0) {
        hand_over_late(world, pair, count, agrees);
      } else {
        ErrorCode code{};
        error_of([&] { (void)allocate<int>(*pair, count); }, &code);
        CHECK(code == ErrorCode::peer_lost);
        world.barrier();
      }
      CHECK(allocate<int>(world, 1).is_shared());  // comes after it
      world.barrier();
      if (world.rank() == 0) CHECK(open_windows() == 0);
      world.barrier();
    });
  }
}

}  // namespace
}  // namespace tutti::testing
