// Rules of the driver: streams that are captured into graphs, and graphs that are launched.

#include <memory>
#include <thread>

#include "tests/gpu/contract.h"
#include "tests/gpu/graphs.h"
#include "tutti/error.h"

namespace tutti::testing {
namespace {

using cuda::KnowsOfCapture;

constexpr CaptureMode global = CaptureMode::global, of_thread = CaptureMode::of_thread;

/// Captures, and answers how the capture ends.
template <class Body>
Result captured(Stream stream, CaptureMode mode, const Body& body) {
  Graph graph = nullptr;
  REQUIRE(program_calls().cuStreamBeginCapture(stream, mode) == Result::success);
  body();
  const Result result = program_calls().cuStreamEndCapture(stream, &graph);
  CHECK((graph != nullptr) == (result == Result::success));
  if (graph != nullptr) (void)program_calls().cuGraphDestroy(graph);
  return result;
}

void count(void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }

}  // namespace

TEST_CASE("graph: what is captured runs at each launch, with the values of the capture") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  std::atomic<int> calls = 0;
  const CapturedGraph graph{stream.get(), global, [&] {
                              CHECK(cuda::capture_of(stream.get()));
                              bench.on(stream, [&](Commands& to) {
                                to.wait(bench.at(0), 1);
                                to.write(bench.at(1), 5);
                              });
                              driver().cuLaunchHostFunc(stream.get(), &count, &calls);
                            }};
  CHECK(!cuda::capture_of(stream.get()));
  CHECK(bench.drains(stream));
  CHECK(bench.word(1) == 0);
  for (int launch = 1; launch <= 3; ++launch) {
    bench.word(0) = bench.word(1) = 0;
    graph.launch(stream.get());
    CHECK(not_soon([&] { return bench.word(1) != 0; }));
    bench.word(0) = 1;
    CHECK(bench.drains(stream));
    CHECK(bench.word(1) == 5);
    CHECK(calls == launch);
  }
  for (int launch = 0; launch < 1000; ++launch) graph.launch(stream.get());
  CHECK(bench.drains(stream));
  CHECK(calls == 1003);
}

TEST_CASE("graph: a capture follows events to other streams, and branches run side by side") {
  const Bench bench;
  const OwnStream stream = bench.stream(), other = bench.stream();
  const OwnEvent fork = bench.event(), join = bench.event();
  const CapturedGraph graph{stream.get(), global, [&] {
                              bench.on(stream, [&](Commands& to) { to.record(fork.get()); });
                              bench.on(other, [&](Commands& to) { to.wait(fork.get()); });
                              CHECK(cuda::capture_of(other.get()).id == cuda::capture_of(stream.get()).id);
                              bench.block(stream, 0);
                              bench.on(other, [&](Commands& to) {
                                to.write(bench.at(1), 1);
                                to.record(join.get());
                              });
                              bench.on(stream, [&](Commands& to) {
                                to.wait(join.get());
                                to.write(bench.at(2), 1);
                              });
                            }};
  CHECK(!cuda::capture_of(other.get()));
  graph.launch(stream.get());
  CHECK(soon([&] { return bench.word(1) == 1; }));
  CHECK(not_soon([&] { return bench.word(2) == 1; }));
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
  CHECK(bench.word(2) == 1);
}

TEST_CASE("graph: launches come after what is in their stream, and do not overlap with each other") {
  const Bench bench;
  const OwnStream one = bench.stream(), other = bench.stream();
  std::atomic<int> calls = 0;
  const CapturedGraph graph{one.get(), global, [&] {
                              driver().cuLaunchHostFunc(one.get(), &count, &calls);
                              bench.block(one, 1);
                            }};
  bench.block(one, 0);
  graph.launch(one.get());
  graph.launch(other.get());
  CHECK(not_soon([&] { return calls > 0; }));
  bench.word(0) = 1;
  CHECK(soon([&] { return calls == 1; }));
  CHECK(not_soon([&] { return calls > 1; }));
  bench.word(1) = 1;
  CHECK(bench.drains(one));
  CHECK(bench.drains(other));
  CHECK(calls == 2);
}

TEST_CASE("graph: events do not lead out of a capture, nor into it") {
  const Bench bench;
  const OwnStream stream = bench.stream(), other = bench.stream();
  const OwnEvent outside = bench.event(), inside = bench.event();
  bench.on(other, [&](Commands& to) { to.record(outside.get()); });
  CHECK(captured(stream.get(), global, [&] {
          CHECK(driver().cuStreamWaitEvent.result(stream.get(), outside.get(), 0) == Result::capture_isolation);
        }) == Result::capture_invalidated);
  CHECK(captured(stream.get(), of_thread, [&] {
          bench.on(stream, [&](Commands& to) { to.record(inside.get()); });
          bench.on(other, [&](Commands& to) {
            to.wait(inside.get());
            to.write(bench.at(0), 1);
          });
        }) == Result::capture_unjoined);
  CHECK(captured(stream.get(), of_thread, [&] {
          bench.on(stream, [&](Commands& to) { to.record(inside.get()); });
          const KnowsOfCapture knows;
          CHECK(driver().cuEventQuery.result(inside.get()) == Result::captured_event);
        }) == Result::success);
  CHECK(captured(stream.get(), of_thread, [&] {
          bench.on(stream, [&](Commands& to) { to.record(inside.get()); });
          CHECK(captured(other.get(), of_thread, [&] {
                  CHECK(driver().cuStreamWaitEvent.result(other.get(), inside.get(), 0) == Result::capture_merge);
                }) == Result::capture_invalidated);
        }) == Result::capture_invalidated);
  CHECK(bench.word(0) == 0);
}

TEST_CASE("graph: calls that a capture forbids spoil it, unless their thread has said that it knows") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const auto allocate = [&] {
    const cuda::Current current{bench.context()};
    Address memory = 0;
    const Result result = driver().cuMemAlloc.result(&memory, 4096);
    if (result == Result::success) (void)driver().cuMemFree.result(memory);
    return result;
  };
  const auto elsewhere = [](const auto& call) {
    Result result = Result::unknown;
    std::thread{[&] { result = call(); }}.join();
    return result;
  };
  CHECK(captured(stream.get(), global, [&] { CHECK(allocate() == Result::capture_unsupported); }) ==
        Result::capture_invalidated);
  CHECK(captured(stream.get(), global, [&] { CHECK(elsewhere(allocate) == Result::capture_unsupported); }) ==
        Result::capture_invalidated);
  CHECK(captured(stream.get(), of_thread, [&] { CHECK(elsewhere(allocate) == Result::success); }) == Result::success);
  CHECK(captured(stream.get(), global, [&] {
          const auto knowing = [&] {
            const KnowsOfCapture knows;
            return allocate();
          };
          CHECK(knowing() == Result::success);
          CHECK(elsewhere(knowing) == Result::success);
        }) == Result::success);
  CHECK(captured(stream.get(), CaptureMode::relaxed, [&] { CHECK(allocate() == Result::success); }) == Result::success);
  CHECK(captured(stream.get(), CaptureMode::relaxed, [&] {
          CHECK(driver().cuStreamSynchronize.result(stream.get()) == Result::capture_unsupported);
        }) == Result::capture_invalidated);
}

TEST_CASE("graph: a capture that is spoiled has no graph, and refuses all commands") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const OwnEvent event = bench.event(), outside = bench.event();
  std::atomic<int> calls = 0;
  CHECK(captured(stream.get(), CaptureMode::relaxed, [&] {
          CHECK(driver().cuStreamSynchronize.result(stream.get()) == Result::capture_unsupported);
          const cuda::Capture capture = cuda::capture_of(stream.get());
          CHECK(!capture);
          CHECK(capture.is_spoiled);
          CHECK(driver().cuLaunchHostFunc.result(stream.get(), &count, &calls) == Result::capture_invalidated);
          CHECK(driver().cuEventRecord.result(event.get(), stream.get()) == Result::capture_invalidated);
          CHECK(driver().cuStreamWaitEvent.result(stream.get(), outside.get(), 0) == Result::capture_invalidated);
          CHECK(driver().cuMemsetD8Async.result(bench.at(0), 1, 8, stream.get()) == Result::capture_invalidated);
          cuda::MemoryOperation one{cuda::MemoryOperation::Kind::write_64, bench.at(0), 1, 0, 0, 0};
          CHECK(driver().cuStreamBatchMemOp.result(stream.get(), 1, &one, 0) == Result::capture_invalidated);
        }) == Result::capture_invalidated);
  CHECK(!cuda::capture_of(stream.get()).is_spoiled);
  CHECK(bench.drains(stream));
  CHECK(bench.word(0) == 0);
  CHECK(calls == 0);
}

TEST_CASE("graph: the legacy default stream is of no use while a stream is captured that is in order with it") {
  const Bench bench;
  Stream blocking = nullptr;
  driver().cuStreamCreateWithPriority(&blocking, 0, 0);
  const OwnStream apart = bench.stream();
  CHECK(captured(blocking, global, [&] {
          for (const Stream legacy : {Stream{nullptr}, cuda::legacy_stream}) {
            CHECK(cuda::capture_of(legacy).is_implicit);
            CHECK(!cuda::capture_of(legacy));
          }
          CHECK(!cuda::capture_of(apart.get()).is_implicit);
        }) == Result::success);
  CHECK(captured(blocking, global, [&] {
          CHECK(driver().cuMemsetD8Async.result(bench.at(0), 1, 8, nullptr) == Result::capture_implicit);
        }) == Result::capture_invalidated);
  CHECK(captured(apart.get(), global, [&] { CHECK(!cuda::capture_of(nullptr).is_implicit); }) == Result::success);
  CHECK(program_calls().cuStreamBeginCapture(nullptr, global) == Result::capture_unsupported);
  CHECK(captured(cuda::per_thread_stream, global, [&] { CHECK(cuda::capture_of(cuda::per_thread_stream)); }) ==
        Result::success);
  CHECK(bench.word(0) == 0);
  driver().cuStreamDestroy(blocking);
}

TEST_CASE("graph: an object of the program's is let go when nothing of the graph is left") {
  const Bench bench;
  const OwnStream stream = bench.stream();
  const OwnEvent event = bench.event();  // which remembers the capture
  std::atomic<int> gone = 0;
  const auto keep = [&] {
    cuda::keep_with(cuda::capture_of(stream.get()), std::make_unique<std::function<void()>>([&] { ++gone; }));
  };
  {
    const CapturedGraph graph{stream.get(), global, [&] {
                                keep();
                                bench.on(stream, [&](Commands& to) { to.record(event.get()); });
                                bench.block(stream, 0);
                              }};
    graph.launch(stream.get());
    CHECK(not_soon([&] { return gone > 0; }));
  }
  CHECK(not_soon([&] { return gone > 0; }));  // the launch is not over
  bench.word(0) = 1;
  CHECK(bench.drains(stream));
  CHECK(soon([&] { return gone == 1; }));
  CHECK(captured(stream.get(), global, keep) == Result::success);  // never launched
  CHECK(soon([&] { return gone == 2; }));
}

}  // namespace tutti::testing
