#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/support/same_bits.h"
#include "tutti/gpu.h"
#include "tutti/run_threads.h"
#include "tutti/tutti.h"

namespace tutti::testing {

/// Runs `body` on ranks that are threads, or, where `tutti run` has started this program, on processes. Each way has an
/// own form of asynchronous calls. False: this process is none of the ranks.
inline bool on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  if (!std::getenv("TUTTI_RANK")) {
    run_threads(ranks, body);
    return true;
  }
  static Communicator world{connect()};  // leaves when the program ends, so that the others do not lose it
  REQUIRE(ranks <= world.size());
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  const bool is_member = world.rank() < ranks;
  if (is_member) {
    Communicator group = world.subgroup(members);
    body(group);
  }
  world.barrier();
  return is_member;
}

/// Without a GPU and without the fake driver there is nothing to test.
inline bool has_gpu() {
  if (gpu::available()) return true;
  MESSAGE("skipped: " << gpu::why_not());
  return false;
}

}  // namespace tutti::testing
