// What a group makes of what other ranks say about it.

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/rank_name.h"
#include "lib/failure/control_message.h"
#include "tests/lib/group/receive.h"
#include "tests/support/allocations.h"
#include "tests/support/alone.h"

namespace tutti::detail {
namespace {

using testing::alone;
using testing::make_receive;
using transport::testing::FailingAllocation;

TEST_CASE("a culprit that does not exist is nobody, whatever number another rank has sent") {
  for (const int number : {1, 1000, 1 << 30, -2, -(1 << 30)}) {
    CAPTURE(number);
    const auto context = alone();
    CommunicatorState told{context, 4242, {0}};
    CommunicatorState heard{context, 4244, {0}};
    context->engine->exclusively([&] { told.group.fail(Error{ErrorCode::aborted, "why", number, 7}); });
    REQUIRE(told.group.failing());
    CHECK(told.group.failure()->rank() == -1);
    CHECK(told.group.failure()->operation() == 7);
    CHECK(std::string{told.group.failure()->what()} == "why");

    context->failure_router->fail_later({.group = 0, .code = ErrorCode::peer_lost, .culprit = number, .text = "lost"});
    context->failure_router->fail_later({.group = 4244, .code = ErrorCode::timeout, .culprit = number, .text = "late"});
    context->engine->exclusively([] {});
    REQUIRE(heard.group.failing());
    CHECK(heard.group.failure()->code() == ErrorCode::timeout);
    CHECK(heard.group.failure()->rank() == -1);
  }
}

TEST_CASE("what is left of a group that found no memory is nothing") {
  const auto context = alone();
  for (std::size_t number = 1;; ++number) {
    CAPTURE(number);
    std::optional<CommunicatorState> first;
    try {
      const FailingAllocation fails{number};
      first.emplace(context, 4242, std::vector<int>{0});
    } catch (const std::bad_alloc&) {
    }
    if (first) break;
    const CommunicatorState again{context, 4242, {0}};
    context->failure_router->fail_later({.group = 4242, .code = ErrorCode::timeout, .culprit = 0, .text = "late"});
    context->engine->exclusively([] {});
    CHECK(again.group.failing());
  }
}

TEST_CASE("hosts have as many ranks each where their members are neighbours, and equally many") {
  const auto context = alone();
  context->size = 6;
  context->peers.resize(6);
  const auto on_each = [&](std::vector<int> hosts, std::vector<int> members) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) context->peers[rank].first_on_host = hosts[rank];
    return CommunicatorState{context, 4242, std::move(members)}.group.ranks_on_each_host();
  };
  CHECK(on_each({0, 0, 2, 2, 4, 4}, {0, 1, 2, 3, 4, 5}) == 2);
  CHECK(on_each({0, 0, 0, 3, 3, 3}, {0, 1, 2, 3, 4, 5}) == 3);
  CHECK(on_each({0, 0, 0, 3, 3, 3}, {0, 2, 3, 4}) == 2);        // a part of each
  CHECK(on_each({0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}) == 1);  // alone on their hosts
  CHECK(on_each({0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5}) == 0);  // one host
  CHECK(on_each({0, 0, 0, 0, 4, 4}, {0, 1, 2, 3, 4, 5}) == 0);  // not equally many
  CHECK(on_each({0, 1, 0, 1, 0, 1}, {0, 1, 2, 3, 4, 5}) == 0);  // no neighbours
  CHECK(on_each({0, 0, 2, 2, 0, 0}, {0, 1, 2, 3, 4, 5}) == 0);
}

TEST_CASE("a rank is called by its number in the group, and by that in the job where it is another") {
  CHECK(name_in_group(3, 3, "rank 3 (host a, pid 12)") == "rank 3 (host a, pid 12)");
  CHECK(name_in_group(1, 13, "rank 13 (host a, pid 12)") == "rank 1 (rank 13 of the job, host a, pid 12)");
  CHECK(name_in_group(-1, 3, "rank 3 (host a, pid 12)") == "rank 3 of the job (host a, pid 12)");
}

TEST_CASE("a receive that another thread makes is no part of split()") {
  const auto context = alone();
  CommunicatorState state{context, 4242, {0}};
  int value = 0;
  Message& receive = make_receive(state, value, 7);
  context->engine->submit(receive);
  receive.release();
  const Within within{state.group, "split()"};
  Status status;
  context->engine->exclusively([&] { REQUIRE(state.group.describe_wait(status)); });
  CHECK(status.wait == Status::Wait::receive);
  CHECK(status.doing.starts_with("recv "));
}

}  // namespace
}  // namespace tutti::detail
