// Calls in default streams, whose handles are the same for all contexts, and in one case for all threads.

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/device_ranks.h"
#include "tests/gpu/gate.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/other_context.h"
#include "tests/gpu/windows.h"
#include "tests/support/scratch.h"

namespace {

using namespace std::chrono_literals;
namespace cuda = tutti::cuda;
namespace gpu = tutti::gpu;
using tutti::at;
using tutti::Communicator;
using tutti::ErrorCode;
using tutti::testing::CapturedGraph;
using tutti::testing::code_of;
using tutti::testing::context;
using tutti::testing::Current;
using tutti::testing::Gate;
using tutti::testing::has_gpu;
using tutti::testing::is_thread;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::OtherContext;
using tutti::testing::same_bits;
using tutti::testing::Setting;

constexpr std::size_t part_size = 1000;

/// The current context's.
bool is_idle(cuda::Stream stream) { return cuda::driver().cuStreamQuery.result(stream) == cuda::Result::success; }

std::vector<float> own_part(int rank, int shift) {
  return std::vector<float>(part_size, static_cast<float>(rank + 10 * shift));
}

std::vector<float> all_parts(int ranks, int shift) {
  std::vector<float> all;
  for (int rank = 0; rank < ranks; ++rank)
    for (const float x : own_part(rank, shift)) all.push_back(x);
  return all;
}

/// An all_gather in a default stream.
struct Gather {
  Gather(Communicator& of, int with_shift)
      : comm(of),
        shift(with_shift),
        in(own_part(of.rank(), with_shift)),
        out(std::vector<float>(part_size * at(of.size()))) {}
  tutti::Work start(cuda::Stream stream) const {
    return comm.async().all_gather(in.span(), out.span(), {.stream = stream});
  }
  bool is_right() const { return same_bits(out.read(), all_parts(comm.size(), shift)); }

  Communicator& comm;
  int shift;
  OnDevice<float> in, out;
};

/// Lets a second thread do things while this one waits for it.
template <class Task>
auto elsewhere(const Task& task) {
  return std::async(std::launch::async, task).get();
}

TEST_CASE("default streams: calls of two threads, each in its own, come one after the other") {
  if (!has_gpu() || is_thread()) return;
  const Setting mode{"TUTTI_GPU_MODE", "streams"};
  on_ranks(3, [](Communicator& comm) {
    const Current current;
    const Gather first{comm, 1}, second{comm, 2};
    first.start(cuda::per_thread_stream).wait();  // agrees how calls run
    const Gate gate;
    gate.close(context(), cuda::per_thread_stream);
    tutti::Work one = first.start(cuda::per_thread_stream);
    tutti::Work other = elsewhere([&] {
      const Current also;
      return second.start(cuda::per_thread_stream);
    });
    CHECK(!other.wait_for(50ms));
    CHECK(!one.done());
    gate.open();
    one.wait();
    other.wait();
    CHECK(first.is_right());
    CHECK(second.is_right());
    comm.barrier();
  });
}

TEST_CASE("default streams: calls of two contexts, each in its own, come one after the other") {
  if (!has_gpu() || is_thread()) return;
  const Setting mode{"TUTTI_GPU_MODE", "streams"};
  on_ranks(3, [](Communicator& world) {
    const OtherContext other{tutti::testing::own_device()};
    {
      Communicator comm = world.split(0);
      const Gather first{comm, 1};
      tutti::testing::context_of_thread() = other.context;
      const Gather second{comm, 2};
      tutti::testing::context_of_thread() = nullptr;
      for (const Gather* one : {&first, &second}) one->start(nullptr).wait();
      const Current current;
      const Gate gate;
      gate.close(context(), nullptr);
      tutti::Work one = first.start(nullptr), two = second.start(nullptr);
      CHECK(!two.wait_for(50ms));
      gate.open();
      one.wait();
      two.wait();
      CHECK(first.is_right());
      CHECK(second.is_right());
    }
    world.barrier();
  });
}

TEST_CASE("default streams: that which comes after a call is the current context's") {
  if (!has_gpu() || is_thread()) return;
  on_ranks(2, [](Communicator& comm) {
    const OtherContext other{tutti::testing::own_device()};
    const cuda::OwnStream stream{context()};
    std::optional<Current> current{std::in_place};
    const Gather gather{comm, 1};
    gather.start(stream.get()).wait();
    const Gate gate;
    current.reset();
    gate.close(context(), stream.get());
    tutti::Work work = gather.start(stream.get());
    {
      const cuda::Current here{other.context};
      work.wait_on(nullptr);
      CHECK(!is_idle(nullptr));
      CHECK(!is_idle(cuda::legacy_stream));
    }
    {
      const Current here;
      CHECK(is_idle(nullptr));
    }
    work.wait_on(nullptr);  // no context is current, so it is the call's
    gate.open();
    work.wait();
    {
      const cuda::Current here{other.context};
      cuda::driver().cuStreamSynchronize(nullptr);
    }
    comm.barrier();
  });
}

TEST_CASE("default streams: another thread cannot order streams after a call in this thread's") {
  if (!has_gpu() || is_thread()) return;
  on_ranks(2, [](Communicator& comm) {
    const Current current;
    const cuda::OwnStream later{context()};
    const Gather gather{comm, 1};
    gather.start(cuda::per_thread_stream).wait();
    const Gate gate;
    gate.close(context(), cuda::per_thread_stream);
    tutti::Work work = gather.start(cuda::per_thread_stream);
    std::string text;
    CHECK(elsewhere([&] { return code_of([&] { work.wait_on(later.get()); }, text); }) == ErrorCode::invalid_argument);
    INFO(text);
    CHECK(text.find("default stream of another thread") != text.npos);
    CHECK(is_idle(later.get()));
    work.wait_on(later.get());
    CHECK(!is_idle(later.get()));
    gate.open();
    work.wait();
    CHECK(gather.is_right());
    comm.barrier();
  });
}

/// A stream that is in order with the legacy default one.
class BlockingStream {
 public:
  BlockingStream() { cuda::driver().cuStreamCreateWithPriority(&stream_, 0, 0); }
  BlockingStream(const BlockingStream&) = delete;
  BlockingStream& operator=(const BlockingStream&) = delete;
  ~BlockingStream() { (void)cuda::driver().cuStreamDestroy.result(stream_); }
  cuda::Stream get() const { return stream_; }

 private:
  cuda::Stream stream_ = nullptr;
};

TEST_CASE("default streams: the legacy one is refused in words while a stream is captured that is in order with it") {
  if (!has_gpu() || is_thread()) return;
  on_ranks(2, [](Communicator& comm) {
    const Current current;
    const BlockingStream captured;
    const cuda::OwnStream apart{context()};
    const Gather gather{comm, 1};
    gather.start(nullptr).wait();
    const CapturedGraph graph{
        captured.get(), cuda::CaptureMode::global, [&] {
          for (const cuda::Stream stream : {cuda::Stream{nullptr}, cuda::legacy_stream}) {
            std::string text;
            CHECK(code_of([&] { gather.start(stream).wait(); }, text) == ErrorCode::invalid_argument);
            INFO(text);
            CHECK(text.find("its stream is the legacy default one") != text.npos);
          }
          gather.start(apart.get()).wait();
          // They use no stream of the program's.
          (void)gpu::allocate<float>(comm, 10);
          gpu::Registration registered = gpu::register_memory(comm, gather.in.span());
          gpu::deregister_memory(comm, std::move(registered));
        }};
    graph.launch(captured.get());
    cuda::driver().cuStreamSynchronize(captured.get());
    CHECK(gather.is_right());
    comm.barrier();
  });
}

}  // namespace
