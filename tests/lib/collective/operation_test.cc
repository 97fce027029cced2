// An operation of one rank: its place among the calls, its input that comes late, the call for which it stands, and
// what its failure says.

#include "lib/collective/operation.h"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "tests/support/alone.h"
#include "tests/support/text.h"
#include "tutti/communicator.h"

namespace tutti::detail {
namespace {

using testing::contains;

/// A communicator of one rank, on which the test is the only thread.
struct LoneRank {
  std::shared_ptr<Context> context = testing::alone();
  CommunicatorState state{context, 4242, {0}};
  std::vector<float> input{1, 2, 3}, output{0, 0, 0};

  Request request(std::chrono::milliseconds timeout = {}) {
    return {.collective = Collective::all_reduce,
            .input = {input.data(), input.size(), DataType::f32},
            .output = {output.data(), output.size(), DataType::f32},
            .op = &op,
            .algorithm = "ring",
            .timeout = timeout};
  }
  Operation& make(std::chrono::milliseconds timeout = {}) { return state.collectives.make(request(timeout)); }
  /// The operation is kept as long as its Work.
  Work submit(Operation& operation) {
    context->engine->submit(operation);
    return Internals::make<Work>(&operation);
  }
  void as_owner(const std::function<void()>& task) { context->engine->exclusively(task); }

  Op op = sum;
};

const Error& error_of(const Operation& operation) {
  REQUIRE(operation.error() != nullptr);
  return *operation.error();
}

/// A stream that has come as far as the test says.
struct Stream final : StreamPart {
  void begins(const transport::Frame& frame) const noexcept override { begun_as = frame; }
  Steps steps() const noexcept override { return {2, 5}; }
  void look_at_device() const noexcept override {}
  bool awaits(int peer) const noexcept override { return peer == awaited; }
  std::string how_far() const override { return "2 of 5 messages had arrived here"; }
  int awaited = 0;
  mutable transport::Frame begun_as{};
};

TEST_CASE("operations get their numbers in the order in which they start") {
  LoneRank rank;
  Operation& late = rank.make();
  Operation& early = rank.make();
  const Work first = rank.submit(early), second = rank.submit(late);
  CHECK(early.number() == 1);
  CHECK(early.frame().operation == 1);
  CHECK(late.number() == 2);
  CHECK(late.frame().operation == 2);
  CHECK(late.call_text() == "all_reduce #2 (3 x f32, sum) with ring");
  CHECK(late.describe() == "all_reduce #2 (3 x f32, sum) with ring on rank 0 of 1");
}

TEST_CASE("frames carry the lower halves of number and history") {
  LoneRank rank;
  Operation& operation = rank.make();
  operation.set_number(0x1'0000'0007);
  operation.set_history(0xabcd'1234'5678);
  CHECK(operation.number() == 0x1'0000'0007);
  CHECK(operation.frame().operation == 7);
  CHECK(operation.frame().history == 0x1234'5678);
  const Work work = rank.submit(operation);
}

TEST_CASE("each call carries a hash of those before it") {
  LoneRank rank, other;
  std::vector<std::uint32_t> histories;
  for (int call = 0; call < 3; ++call) {
    Operation &here = rank.make(), &there = other.make();
    const Work one = rank.submit(here), two = other.submit(there);
    CHECK(here.frame().history == there.frame().history);
    for (const std::uint32_t before : histories) CHECK(here.frame().history != before);
    histories.push_back(here.frame().history);
  }
}

TEST_CASE("an operation takes its place before its input is there, and reads nothing until then") {
  LoneRank rank;
  Operation& operation = rank.make();
  CHECK(!operation.awaits_input());
  operation.await_input();
  Work work = rank.submit(operation);
  CHECK(operation.awaits_input());
  CHECK(operation.number() == 1);
  CHECK(!operation.done());
  CHECK(operation.progress().done == 0);
  CHECK(rank.output == std::vector<float>{0, 0, 0});
  rank.input = {4, 5, 6};
  rank.as_owner([&] { operation.input_is_there(); });
  work.wait();
  CHECK(operation.done());
  CHECK(!operation.awaits_input());
  CHECK(rank.output == std::vector<float>{4, 5, 6});
}

TEST_CASE("an operation whose input comes before it starts begins as others do") {
  LoneRank rank;
  Operation& operation = rank.make();
  operation.await_input();
  rank.as_owner([&] { operation.input_is_there(); });
  CHECK(!operation.done());
  CHECK(rank.output == std::vector<float>{0, 0, 0});
  Work work = rank.submit(operation);
  work.wait();
  CHECK(rank.output == rank.input);
}

TEST_CASE("an operation that is used again awaits no input of its earlier call") {
  LoneRank rank;
  const Operation* used = nullptr;
  {
    Operation& operation = rank.make();
    used = &operation;
    operation.await_input();
    const Work work = rank.submit(operation);
    rank.as_owner([&] { operation.fail(Error{ErrorCode::system, "no memory"}); });
    CHECK(error_of(operation).code() == ErrorCode::system);
  }
  Operation& again = rank.make();
  REQUIRE(&again == used);
  CHECK(!again.awaits_input());
  const Work work = rank.submit(again);
}

TEST_CASE("an operation whose input never comes blames this rank's GPU at its deadline") {
  LoneRank rank;
  Operation& operation = rank.make(std::chrono::milliseconds{1});
  operation.await_input();
  const Work work = rank.submit(operation);
  while (!operation.done()) rank.as_owner([&] { operation.expire(); });
  const Error& error = error_of(operation);
  CHECK(error.code() == ErrorCode::timeout);
  CHECK(error.rank() == 0);
  CHECK(error.operation() == 1);
  CHECK_MESSAGE(contains(error.what(),
                         "all_reduce #1 (3 x f32, sum) with ring on rank 0 of 1: timed out after 0.0 s: on this "
                         "rank the GPU has not finished the work that stands before the call in its stream"),
                error.what());
}

TEST_CASE("an operation that stands for a call is over once its stream has passed, and not before") {
  LoneRank rank;
  const auto stream = std::make_shared<Stream>();
  Operation& operation = rank.state.collectives.make_stand_in(rank.request(), "ring", {}, stream);
  CHECK(stream->begun_as.count == 0);
  const Work work = rank.submit(operation);
  CHECK(stream->begun_as == operation.frame());
  CHECK(operation.call_text() == "all_reduce #1 (3 x f32, sum) with ring");
  CHECK(operation.frame().count == 3);
  CHECK(operation.stream_part() != nullptr);
  CHECK(operation.progress().done == operation.progress().all);
  CHECK(!operation.done());
  rank.as_owner([&] { operation.stream_has_passed(); });
  CHECK(operation.done());
  CHECK(operation.error() == nullptr);
  CHECK(operation.stream_part() == nullptr);
  CHECK(rank.output == std::vector<float>{0, 0, 0});  // the bytes are the stream's
}

TEST_CASE("an operation whose stream passes before it starts is over when it has started") {
  LoneRank rank;
  Operation& operation = rank.state.collectives.make_stand_in(rank.request(), "ring", {}, std::make_shared<Stream>());
  rank.as_owner([&] { operation.stream_has_passed(); });
  CHECK(!operation.done());
  const Work work = rank.submit(operation);
  CHECK(operation.done());
}

TEST_CASE("the failure of an operation that stands for a call says how far the stream has come") {
  LoneRank rank;
  Operation& operation = rank.state.collectives.make_stand_in(rank.request(), "ring", {}, std::make_shared<Stream>());
  const Work work = rank.submit(operation);
  operation.abort("the loss is not a number");
  rank.as_owner([] {});
  const Error& error = error_of(operation);
  CHECK_MESSAGE(contains(error.what(), "all_reduce #1 (3 x f32, sum) with ring on rank 0 of 1: "), error.what());
  CHECK_MESSAGE(contains(error.what(), "the loss is not a number. 2 of 5 messages had arrived here, 0 bytes received"),
                error.what());
  CHECK(error.details().collective == "all_reduce");
  CHECK(error.details().algorithm == "ring");
  CHECK(error.details().data_type == "f32");
  CHECK(error.details().count == 3);
}

TEST_CASE("a failure says in words and in fields what failed and how far it had come") {
  LoneRank rank;
  Operation& operation = rank.make();
  operation.await_input();
  const Work work = rank.submit(operation);
  rank.as_owner([&] {
    operation.count_received(12);
    operation.fail(Error{ErrorCode::peer_lost, "rank 3 is gone.", 3});
  });
  const Error& error = error_of(operation);
  const std::string steps = std::to_string(operation.plan().steps.size());
  REQUIRE(operation.plan().steps.size() > 0);
  CHECK(std::string{error.what()} == "all_reduce #1 (3 x f32, sum) with ring on rank 0 of 1: rank 3 is gone. 0 of " +
                                         steps + " steps were done here, 12 bytes received");
  CHECK(error.code() == ErrorCode::peer_lost);
  CHECK(error.rank() == 3);
  CHECK(error.operation() == 1);
  const FailureDetails& details = error.details();
  CHECK(details.collective == "all_reduce");
  CHECK(details.algorithm == "ring");
  CHECK(details.data_type == "f32");
  CHECK(details.count == 3);
  CHECK(details.steps_done == 0);
  CHECK(details.steps == operation.plan().steps.size());
  CHECK(!details.in_rounds);
  CHECK(details.bytes_received == 12);
}

TEST_CASE("a failure that began in an earlier call names that one") {
  LoneRank rank;
  Operation& first = rank.make();
  const Work one = rank.submit(first);
  Operation& second = rank.make();
  second.await_input();
  const Work two = rank.submit(second);
  rank.as_owner([&] { second.fail(Error{ErrorCode::peer_lost, "rank 3 is gone", 3, 1}); });
  CHECK_MESSAGE(contains(error_of(second).what(),
                         "#2 (3 x f32, sum) with ring on rank 0 of 1: the communicator failed in "
                         "operation #1: rank 3 is gone. "),
                error_of(second).what());
  CHECK(error_of(second).operation() == 2);
}

}  // namespace
}  // namespace tutti::detail
