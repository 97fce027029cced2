#include "transport/closed_channels.h"

#include <doctest/doctest.h>

#include <string>

namespace tutti::transport::testing {
namespace {

TEST_CASE("of closed channels the last ones are remembered, with what was said first") {
  ClosedChannels<std::string> closed;
  constexpr Channel count = 3 * ClosedChannels<std::string>::most;
  for (Channel channel = 0; channel < count; ++channel) {
    CHECK(closed.close(channel, "bye") == "bye");
    CHECK(closed.close(channel, "again") == "bye");
  }
  CHECK(closed.size() == ClosedChannels<std::string>::most);
  CHECK(closed.find(count - 1) != nullptr);
  CHECK(closed.find(count - closed.size()) != nullptr);
  CHECK(closed.find(count - closed.size() - 1) == nullptr);
}

TEST_CASE("a channel that is opened again was not closed") {
  ClosedChannels<std::string> closed;
  closed.close(2, "bye");
  closed.reopen(2);
  closed.reopen(4);
  CHECK(closed.find(2) == nullptr);
  CHECK(closed.size() == 0);
  CHECK(closed.close(2, "later") == "later");
}

}  // namespace
}  // namespace tutti::transport::testing
