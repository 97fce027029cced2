// What calls that are captured into graphs refuse, and what they do not disturb.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/captured_calls.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/windows.h"
#include "tests/support/sample.h"
#include "tests/support/scratch.h"

namespace {

namespace cuda = tutti::cuda;
namespace gpu = tutti::gpu;
using tutti::at;
using tutti::Communicator;
using tutti::ErrorCode;
using tutti::testing::CapturedGraph;
using tutti::testing::code_of;
using tutti::testing::context;
using tutti::testing::counted;
using tutti::testing::Current;
using tutti::testing::data_of;
using tutti::testing::fail_next;
using tutti::testing::get;
using tutti::testing::may_have_windows;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::put;
using tutti::testing::same_bits;
using tutti::testing::Setting;
using tutti::testing::captures::captured;
using tutti::testing::captures::captured_count;
using tutti::testing::captures::capturing_ranks;
using tutti::testing::captures::in_each_way;
using tutti::testing::captures::sum_of;
using tutti::testing::captures::synchronize;

TEST_CASE("graphs: what a graph cannot hold is refused in words, and the capture goes on") {
  if (!may_have_windows()) return;
  const auto in_capture = [](Communicator& comm, bool is_set_up, const std::string& why, const auto& call) {
    const Current current;
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(captured_count)};
    if (is_set_up) comm.all_gather(data.part(0, 1), data.part(10, at(comm.size())), {.stream = stream.get()});
    std::string text;
    const CapturedGraph graph = captured(stream, [&] {
      CHECK(code_of([&] { call(data.span(), stream.get()); }, text) == ErrorCode::unsupported);
      INFO(text);
      CHECK(text.find("its stream is being captured into a graph: " + why) != text.npos);
    });
    graph.launch(stream.get());
    synchronize(stream);
    comm.all_gather(data.part(0, 1), data.part(10, at(comm.size())), {.stream = stream.get()});
  };
  const Setting mode{"TUTTI_GPU_MODE", "streams"};
  on_ranks(2, [&](Communicator& comm) {
    in_capture(comm, false, "the ranks have not agreed yet how calls run",
               [&](auto data, void* stream) { (void)comm.async().all_reduce(data, tutti::sum, {.stream = stream}); });
    in_capture(comm, true, "it cannot wait for its result",
               [&](auto data, void* stream) { comm.all_reduce(data, tutti::sum, {.stream = stream}); });
    in_capture(comm, true, "messages go through memory of the host",
               [&](auto data, void* stream) { (void)comm.isend(data, 1 - comm.rank(), {.stream = stream}); });
    const tutti::Op op{tutti::DataType::f32, [](void*, const void*, std::size_t) {}};
    in_capture(comm, true, "it goes through memory of the host",
               [&](auto data, void* stream) { (void)comm.async().all_reduce(data, op, {.stream = stream}); });
    const Setting staged{"TUTTI_GPU_MODE", "staged"};
    Communicator other = comm.split(0);
    in_capture(other, true, "it goes through memory of the host",
               [&](auto data, void* stream) { (void)other.async().all_reduce(data, tutti::sum, {.stream = stream}); });
    comm.barrier();
  });
}

TEST_CASE("graphs: a call in a capture that is spoiled is refused, and its communicator goes on") {
  if (!may_have_windows()) return;
  in_each_way([](Communicator& comm, const char* algorithm) {
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(captured_count)};
    std::string text;
    CHECK_THROWS_AS(captured(stream,
                             [&] {
                               (void)cuda::driver().cuStreamSynchronize.result(stream.get());  // spoils it
                               const tutti::CallOptions options{.algorithm = algorithm, .stream = stream.get()};
                               const auto call = [&] {
                                 (void)comm.async().all_reduce(data.span(), tutti::sum, options);
                               };
                               CHECK(code_of(call, text) == ErrorCode::invalid_argument);
                             }),
                    tutti::Error);
    INFO(text);
    CHECK(text.find("has spoiled the capture: end it") != text.npos);
    put(data.span(), data_of(comm.rank(), captured_count));
    comm.all_reduce(data.span(), tutti::sum, {.algorithm = algorithm, .stream = stream.get()});
    CHECK(same_bits(get(data.span()), sum_of(comm, 0, captured_count, algorithm)));
    comm.barrier();
  });
}

TEST_CASE("graphs: those of equal calls that ranks launch in different orders are a mismatch") {
  if (!may_have_windows()) return;
  in_each_way([](Communicator& comm, const char* algorithm) {
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(captured_count)};
    const auto capture = [&] {
      return captured(stream, [&] {
        (void)comm.async().all_reduce(data.span(), tutti::sum, {.algorithm = algorithm, .stream = stream.get()});
      });
    };
    const CapturedGraph one = capture(), other = capture();
    one.launch(stream.get());
    other.launch(stream.get());
    synchronize(stream);
    // From here on another rank may have failed.
    (comm.rank() == 0 ? one : other).launch(stream.get());
    (comm.rank() == 0 ? other : one).launch(stream.get());
    synchronize(stream);
    std::string text;
    std::optional<ErrorCode> code;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (!code && std::chrono::steady_clock::now() < end) {
      try {
        comm.barrier();
      } catch (const tutti::Error& error) {
        code = error.code();
        text = error.what();
      }
    }
    INFO(text);
    CHECK(code == ErrorCode::mismatch);
    CHECK(text.find("failed in operation #") == text.npos);  // which would not be the program's
  });
}

TEST_CASE("graphs: those that are gone go by and by, though no other calls are made") {
  if (!may_have_windows()) return;
  in_each_way([](Communicator& comm, const char* algorithm) {
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(captured_count)};
    constexpr int captures = 200;
    const std::uint64_t before = counted("fake_cuda_events");
    for (int i = 0; i < captures; ++i)
      (void)captured(stream, [&] {
        (void)comm.async().all_reduce(data.span(), tutti::sum, {.algorithm = algorithm, .stream = stream.get()});
      });
    // Each has an event. The driver tells a moment later that a graph is gone.
    CHECK(counted("fake_cuda_events") < before + captures / 2);
    comm.barrier();
  });
}

/// Waits for threads of the driver's, which let go of what was in streams and graphs.
std::ptrdiff_t files_open(std::ptrdiff_t wanted) {
  std::ptrdiff_t open = 0;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};;) {
    open = std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
    if (open <= wanted || std::chrono::steady_clock::now() >= end) return open;
    std::this_thread::yield();
  }
}

TEST_CASE("graphs: one that is launched after its job has ended leaves nothing of it behind") {
  if (!may_have_windows()) return;
  const Setting mode{"TUTTI_GPU_MODE", "one-shot"};
  on_ranks(2, [](Communicator& world) {
    const Current current;
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(8, 1)};
    std::ptrdiff_t open = std::numeric_limits<std::ptrdiff_t>::max();
    for (int turn = 0; turn < 3; ++turn) {
      std::optional<CapturedGraph> graph;
      {
        const std::string meeting = std::getenv("TUTTI_RDZV") + fmt::format(".{}", turn);
        Communicator comm = tutti::connect({.rank = world.rank(), .size = 2, .rendezvous = meeting});
        comm.all_reduce(data.span(), tutti::sum, {.algorithm = "direct", .stream = stream.get()});
        graph.emplace(captured(stream, [&] {
          (void)comm.async().all_reduce(data.span(), tutti::sum, {.algorithm = "direct", .stream = stream.get()});
        }));
        graph->launch(stream.get());
        synchronize(stream);
        comm.barrier();
      }
      graph->launch(stream.get());
      synchronize(stream);
      graph.reset();
      world.barrier();
      const std::ptrdiff_t now = files_open(open);
      if (turn > 0) CHECK(now <= open);  // the first one has made what stays
      open = now;
    }
    world.barrier();
  });
}

TEST_CASE("graphs: a call of which only a part is in a graph ends when that is launched") {
  if (!may_have_windows() || counted("fake_cuda_calls") == 0) return;
  for (const cuda::Result refused : {cuda::Result::out_of_memory, fake_cuda::no_memory_of_host})
    in_each_way([&](Communicator& world, const char* algorithm) {
      const cuda::OwnStream stream{context()};
      const OnDevice<float> data{std::vector<float>(captured_count)};
      std::optional<Communicator> comm{world.split(0)};
      comm->all_reduce(data.span(), tutti::sum, {.algorithm = algorithm});
      world.barrier();
      const CapturedGraph graph = captured(stream, [&] {
        if (world.rank() != 1) return;
        fail_next("cuStreamBatchMemOp", refused);
        const auto call = [&] {
          (void)comm->async().all_reduce(data.span(), tutti::sum, {.algorithm = algorithm, .stream = stream.get()});
        };
        CHECK_THROWS_AS(call(), tutti::Error);
      });
      graph.launch(stream.get());
      synchronize(stream);
      const auto begin = std::chrono::steady_clock::now();
      comm.reset();
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{9});  // else it waits 10 s for the call
      world.barrier();
    });
}

TEST_CASE("graphs: the library's own memory and kernels spoil no capture of the program's") {
  if (!may_have_windows()) return;
  const Setting slot{"TUTTI_GPU_SLOT_BYTES", "4096"};
  for (const char* mode : {"streams", "leader", "staged"}) {
    const Setting chosen{"TUTTI_GPU_MODE", mode};
    on_ranks(capturing_ranks, [&](Communicator& world) {
      const Current current;
      const cuda::OwnStream bystander{context()}, stream{context()};
      // No memory of the library's own that is left from earlier calls is as large.
      constexpr std::size_t large = 200'003;
      const OnDevice<float> data{data_of(world.rank(), large)};
      const CapturedGraph empty = captured(bystander, [&] {
        Communicator comm = world.split(0);
        auto array = gpu::allocate<float>(comm, large);
        comm.all_reduce(data.span(), array.span(), tutti::sum, {.algorithm = "direct", .stream = stream.get()});
        comm.async().all_reduce(array.span(), tutti::sum, {.stream = stream.get()}).wait();
        array = gpu::allocate<float>(comm, 10);
      });
      empty.launch(bystander.get());
      synchronize(bystander);
      world.barrier();
    });
  }
}

TEST_CASE("graphs: what a trace asks of the driver spoils no capture of the program's") {
  if (!may_have_windows()) return;
  const tutti::testing::Folder folder;
  const Setting trace{"TUTTI_TRACE_FILE", folder.name + "/trace"};
  const Current current;
  const cuda::OwnStream bystander{context()}, stream{context()};
  const OnDevice<float> data{data_of(0, 10)};
  // Each rank is a job by itself.
  Communicator comm = tutti::connect({.rank = 0, .size = 1, .rendezvous = "file://" + folder.name + "/meeting"});
  const CapturedGraph empty = captured(bystander, [&] {
    for (int turn = 0; turn < 3; ++turn)
      comm.async().all_reduce(data.span(), tutti::sum, {.stream = stream.get()}).wait();
  });
  empty.launch(bystander.get());
  synchronize(bystander);
}

TEST_CASE("graphs: memory with which one has a call cannot be deregistered") {
  if (!may_have_windows()) return;
  in_each_way([](Communicator& comm, const char* algorithm) {
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(captured_count)};
    gpu::Registration registered = gpu::register_memory(comm, data.span());
    if (!registered.is_shared()) return gpu::deregister_memory(comm, std::move(registered));  // over links
    std::optional<CapturedGraph> graph{captured(stream, [&] {
      (void)comm.async().all_reduce(data.span(), tutti::sum, {.algorithm = algorithm, .stream = stream.get()});
    })};
    std::string text;
    if (comm.rank() != 1) graph.reset();
    const ErrorCode code = code_of([&] { gpu::deregister_memory(comm, std::move(registered)); }, text);
    INFO(text);
    CHECK(code == (comm.rank() == 1 ? ErrorCode::invalid_argument : ErrorCode::mismatch));
    CHECK(text.find(comm.rank() == 1 ? "a graph has a call with this memory: destroy first"
                                     : "rank 1 cannot deregister what it gave; it says why") != text.npos);
    CHECK(registered.is_shared());
    graph.reset();
    gpu::deregister_memory(comm, std::move(registered));
    comm.barrier();
  });
}

TEST_CASE("graphs: while they run, other memory can be deregistered, and then freed") {
  if (!may_have_windows()) return;
  const Setting mode{"TUTTI_GPU_MODE", "one-shot"};
  on_ranks(2, [](Communicator& world) {
    const Current current;
    Communicator comm = world.split(0);
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(8, 1)};
    comm.all_reduce(data.span(), tutti::sum, {.algorithm = "direct", .stream = stream.get()});
    const CapturedGraph graph = captured(stream, [&] {
      for (int i = 0; i < 3; ++i)
        (void)comm.async().all_reduce(data.span(), tutti::sum, {.algorithm = "direct", .stream = stream.get()});
    });
    for (int turn = 0; turn < 40; ++turn) {
      auto memory = std::make_unique<OnDevice<float>>(std::vector<float>(1000, 2));
      auto registration = gpu::register_memory(comm, memory->span());
      CHECK(registration.is_shared());
      for (int i = 0; i < 20; ++i) graph.launch(stream.get());
      gpu::deregister_memory(comm, std::move(registration));
      memory.reset();  // the fake driver ends the program if another process has it open
    }
    synchronize(stream);
    world.barrier();
  });
}

/// As in the test of calls that are not captured, no memory is freed while a call is on its way, and no two streams
/// share a hardware queue. For ThreadSanitizer, which sees the order of all streams here.

}  // namespace
