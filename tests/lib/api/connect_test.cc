// What connect() does with what the program gives it.

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "lib/api/settings.h"
#include "tutti/tutti.h"

namespace tutti::testing {

TEST_CASE("a store of the program's own has its timeout back after connect(), also after one that failed") {
  using namespace std::chrono_literals;
  const auto store = memory_store();
  store->set_timeout(7s);
  ConnectOptions options{.rank = 0, .size = 1, .store = store};
  options.setup_timeout = 10s;
  const Communicator alone = connect(options);
  CHECK(store->timeout() == 7s);
  options.size = 2;
  options.job = "another";
  options.setup_timeout = 50ms;
  CHECK_THROWS_AS(connect(options), Error);
  CHECK(store->timeout() == 7s);
}

TEST_CASE("a rank that rank 0 keeps waiting says so, whatever key it waits for") {
  using namespace std::chrono_literals;
  ConnectOptions options{.rank = 1, .size = 2, .store = memory_store(), .setup_timeout = 50ms};
  try {
    connect(options);
    FAIL("rank 1 has met nobody");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::rendezvous);
    CHECK(error.rank() == 0);
    CHECK_MESSAGE(std::string{error.what()}.find("for rank 0, which has not come") != std::string::npos, error.what());
  }
}

TEST_CASE("the silence after which a rank counts as lost may be of any length") {
  using namespace std::chrono;
  const milliseconds silence = settings::lost_after(milliseconds::max());
  CHECK(silence > hours{24 * 365});
  CHECK(silence < duration_cast<milliseconds>(nanoseconds::max()) / 4);  // links double it, in nanoseconds
  CHECK(settings::lost_after(milliseconds{2000}) == milliseconds{2000});
}

}  // namespace tutti::testing
