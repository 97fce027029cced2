// What ends while calls on device memory are in their streams: communicators, and the last one of a job.

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/gpu/memory.h"
#include "lib/gpu/pinned_memory.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/gate.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/other_context.h"
#include "tests/gpu/program_calls.h"
#include "tests/gpu/windows.h"
#include "tests/support/scratch.h"

namespace {

using namespace std::chrono_literals;
namespace cuda = tutti::cuda;
using tutti::Communicator;
using tutti::ErrorCode;
using tutti::testing::code_of;
using tutti::testing::context;
using tutti::testing::counted;
using tutti::testing::Current;
using tutti::testing::fail_next;
using tutti::testing::Gate;
using tutti::testing::has_gpu;
using tutti::testing::has_kernels;
using tutti::testing::is_thread;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::OtherContext;
using tutti::testing::program_calls;
using tutti::testing::same_bits;
using tutti::testing::Setting;

TEST_CASE("lifetimes: a message whose stream has not got to it ends with its communicator") {
  if (!has_gpu() || is_thread()) return;
  on_ranks(2, [](Communicator& world) {
    const Current current;
    const cuda::OwnStream stream{context()};
    const OnDevice<float> out{{1, 2, 3}}, in{{4, 5, 6}};
    std::optional<Communicator> comm{world.split(0)};
    const Gate gate;
    gate.close(context(), stream.get());
    const int other = 1 - world.rank();
    tutti::Work sent = comm->isend(out.span(), other, {.stream = stream.get()});
    tutti::Work received = comm->irecv(in.span(), other, {.stream = stream.get()});
    CHECK(!sent.done());
    comm.reset();
    for (tutti::Work* const work : {&sent, &received}) {
      std::string text;
      CHECK(code_of([&] { (void)work->wait_for(20s); }, text) == ErrorCode::aborted);
      INFO(text);
      CHECK(text.find("the communicator ended before the stream got to the call") != text.npos);
    }
    gate.open();
    cuda::driver().cuStreamSynchronize(stream.get());
    world.barrier();
  });
}

TEST_CASE("lifetimes: streams may be the last to own what the calls of a job use") {
  if (!has_gpu() || is_thread()) return;
  const Current current;
  const tutti::testing::Folder folder;  // each rank is a job by itself
  const cuda::OwnStream stream{context()};
  const OnDevice<float> out{{1, 2, 3}}, in{{4, 5, 6}};
  const Gate gate;
  {
    std::optional<Communicator> comm{
        tutti::connect({.rank = 0, .size = 1, .rendezvous = "file://" + folder.name + "/meeting"})};
    gate.close(context(), stream.get());
    (void)comm->isend(out.span(), 0, {.stream = stream.get()});
    (void)comm->irecv(in.span(), 0, {.stream = stream.get()});
    (void)comm->async().all_reduce(in.span(), tutti::sum, {.stream = stream.get()});
  }
  gate.open();
  cuda::driver().cuStreamSynchronize(stream.get());
}

TEST_CASE("lifetimes: pinned memory for a vector whose size is a power of two takes no more") {
  if (!has_gpu()) return;
  const Current current;
  constexpr std::size_t size = std::size_t{1} << 20;
  const auto one = tutti::detail::PinnedMemory::take(size), other = tutti::detail::PinnedMemory::take(size);
  CHECK(cuda::facts_of(cuda::address_of(one.data())).size == size);
  CHECK(one.data() != other.data());
  CHECK(&one.word() != &other.word());
  for (const auto* const memory : {&one, &other}) {
    CHECK(memory->word().load() == 0);
    CHECK(cuda::facts_of(cuda::address_of(&memory->word())).kind == cuda::PointerFacts::Kind::host);
    std::memset(memory->data(), 0xff, size);
  }
  CHECK(one.word().load() == 0);
  CHECK(other.word().load() == 0);
}

TEST_CASE("lifetimes: a call that fails keeps its pinned memory, which its stream may still use") {
  if (!has_gpu() || is_thread() || counted("fake_cuda_calls") == 0) return;
  const Setting setting{"TUTTI_GPU_MODE", "staged"};
  on_ranks(2, [](Communicator& world) {
    const Current current;
    constexpr std::size_t size = std::size_t{1} << 20;
    const cuda::OwnStream stream{context()};
    const OnDevice<float> small{{1, 2}}, data{std::vector<float>(size / sizeof(float), 1)};
    Communicator comm = world.split(0);
    comm.all_reduce(small.span(), tutti::sum);  // sets up
    world.barrier();
    const Gate gate;
    gate.close(context(), stream.get());
    const bool fails = world.rank() == 1;
    if (fails) fail_next("cuLaunchHostFunc", cuda::Result::out_of_memory);  // behind the copy of the input
    std::string text;
    const auto call = [&] { comm.async().all_reduce(data.span(), tutti::sum, {.stream = stream.get()}).wait(); };
    CHECK(code_of(call, text) == (fails ? ErrorCode::system : ErrorCode::aborted));
    INFO(text);
    const auto others = tutti::detail::PinnedMemory::take(size);
    std::memset(others.data(), 0, size);
    gate.open();
    cuda::driver().cuStreamSynchronize(stream.get());
    CHECK(std::all_of(others.data(), others.data() + size, [](std::byte one) { return one == std::byte{0}; }));
    world.barrier();
  });
}

TEST_CASE("lifetimes: a rank whose host has no memory for a call that is staged tells the others at once") {
  if (!has_gpu() || is_thread() || counted("fake_cuda_calls") == 0) return;
  const Setting setting{"TUTTI_GPU_MODE", "staged"};
  for (const char* const function : {"cuMemHostAlloc", "cuMemcpyAsync"})
    on_ranks(2, [&](Communicator& world) {
      const Current current;
      const OnDevice<float> small{{1, 2}}, data{std::vector<float>(std::size_t{5} << 20)};  // for which none is left
      Communicator comm = world.split(0);
      comm.all_reduce(small.span(), tutti::sum);  // sets up
      world.barrier();
      const bool fails = world.rank() == 1;
      if (fails) fail_next(function, fake_cuda::no_memory_of_host);
      std::string text;
      const auto call = [&] { comm.all_reduce(data.span(), tutti::sum, {.timeout = 10s}); };
      CHECK(code_of(call, text) == (fails ? ErrorCode::system : ErrorCode::aborted));
      INFO(text);
      CHECK(text.find(fails ? "all_reduce on rank 1 of 2: std::bad_alloc" : "rank 1") != text.npos);
      world.barrier();
    });
}

/// An all_reduce in the default stream of a context, with memory of it.
void sum_in(Communicator& comm, cuda::Context of, std::size_t count = 1000) {
  tutti::testing::context_of_thread() = of;
  {
    const Current current;
    const OnDevice<float> data{std::vector<float>(count, 2)};
    comm.all_reduce(data.span(), tutti::sum);
    CHECK(same_bits(data.read(), std::vector<float>(count, static_cast<float>(2 * comm.size()))));
  }
  tutti::testing::context_of_thread() = nullptr;
}

TEST_CASE("lifetimes: a context may end after calls in it, and another one have its pointer") {
  if (!has_gpu()) return;
  const bool has_ranks = !is_thread() && has_kernels();
  for (const char* const mode : {"staged", "streams"}) {
    if (!has_ranks && mode == std::string_view{"streams"}) continue;
    const Setting setting{"TUTTI_GPU_MODE", mode};
    on_ranks(3, [](Communicator& world) {
      Communicator comm = world.split(0);
      for (int turn = 0; turn < 3; ++turn) {
        const std::size_t count = std::size_t{20'000} << turn;  // for which there is no pinned memory so far
        sum_in(comm, nullptr);
        {
          const OtherContext other{tutti::testing::own_device()};
          sum_in(comm, other.context, count);
          world.barrier();
        }
        sum_in(comm, nullptr, count);
        world.barrier();
      }
    });
  }
}

TEST_CASE("lifetimes: a communicator says that the context has ended in which it has its memory") {
  if (!has_gpu() || is_thread() || !has_kernels()) return;
  const Setting setting{"TUTTI_GPU_MODE", "streams"};
  on_ranks(2, [](Communicator& world) {
    std::optional<Communicator> comm{world.split(0)};
    {
      const OtherContext other{tutti::testing::own_device()};
      sum_in(*comm, other.context);
      world.barrier();
    }
    const OtherContext another{tutti::testing::own_device()};
    std::string text;
    CHECK(code_of([&] { sum_in(*comm, another.context); }, text) == ErrorCode::invalid_argument);
    INFO(text);
    CHECK(text.find("has ended (cuCtxDestroy, cudaDeviceReset): make another communicator") != text.npos);
    tutti::testing::context_of_thread() = nullptr;
    world.barrier();
    comm.reset();
    world.barrier();
  });
}

/// All that this process had on the GPU ends.
TEST_CASE("lifetimes: the program may reset its GPU between communicators") {
  if (!has_gpu() || is_thread() || !has_kernels() || counted("fake_cuda_calls") == 0) return;
  for (const char* const mode : {"staged", "streams"}) {
    const Setting setting{"TUTTI_GPU_MODE", mode};
    on_ranks(3, [](Communicator& world) {
      for (int turn = 0; turn < 2; ++turn) {
        std::optional<Communicator> comm{world.split(0)};
        sum_in(*comm, nullptr);
        world.barrier();
        comm.reset();
        world.barrier();
        CHECK(program_calls().cuDevicePrimaryCtxReset(tutti::testing::own_device()) == cuda::Result::success);
        world.barrier();
      }
    });
  }
}

}  // namespace
