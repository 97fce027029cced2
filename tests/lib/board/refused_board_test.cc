// Ranks for whose board the system has no memory.

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "lib/base/system_calls.h"
#include "tests/support/world.h"

namespace tutti::testing {

TEST_CASE("threads for whose board the system has no memory fail in their call, and the program goes on") {
  system_calls::refuse(SystemCall::mmap, ENOMEM, 0);
  ErrorCode code{};
  std::string text;
  run_ranks({.ranks = 2}, [&](Communicator& comm) {
    std::vector<int> data(1000);
    const auto call = [&] { comm.all_reduce(data, sum); };
    if (comm.rank() == 0)
      text = error_of(call, &code);
    else
      CHECK(error_of(call) != "");
  });
  system_calls::refuse_none();
  CHECK(code == ErrorCode::system);
  CHECK(text.find("KiB of shared memory: Cannot allocate memory") != std::string::npos);
}

}  // namespace tutti::testing
