// The order of calls on device memory: in their streams, and between streams.

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "tests/gpu/device_ranks.h"
#include "tests/gpu/on_device.h"
#include "tests/support/sample.h"
#include "tests/support/scratch.h"

namespace {

namespace cuda = tutti::cuda;
using tutti::Communicator;
using tutti::testing::context;
using tutti::testing::has_gpu;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::same_bits;

TEST_CASE("calls are in the order of their stream") {
  if (!has_gpu()) return;
  constexpr std::size_t count = 30'000;
  on_ranks(3, [](Communicator& comm) {
    const cuda::OwnStream stream{context()};
    const OnDevice<std::uint8_t> data{std::vector<std::uint8_t>(count)};
    const tutti::CallOptions options{.stream = stream.get()};
    std::vector<tutti::Work> works;
    for (int turn = 0; turn < 40; ++turn) {
      {
        cuda::Commands commands{context(), stream.get()};
        commands.fill(cuda::address_of(data.span().data()), static_cast<unsigned char>(comm.rank() + turn), count);
      }
      works.push_back(comm.async().all_reduce(data.span(), tutti::sum, options));
      if (turn % 8 == 7) comm.barrier();  // of the host, between them
    }
    cuda::driver().cuStreamSynchronize(stream.get());
    const auto content = data.read();
    CHECK(std::ranges::all_of(content, [](std::uint8_t x) { return x == 0 + 1 + 2 + 3 * 39; }));
    tutti::wait_all(works);
  });
}

TEST_CASE("another stream can come after a call") {
  if (!has_gpu()) return;
  constexpr std::size_t count = 20'000;
  on_ranks(3, [](Communicator& comm) {
    const cuda::OwnStream stream{context()}, other{context()};
    for (int turn = 0; turn < 10; ++turn) {
      const OnDevice<float> data{std::vector<float>(count, static_cast<float>(turn + comm.rank()))};
      const OnDevice<float> copy{std::vector<float>(count)};
      tutti::Work work = comm.async().all_reduce(data.span(), tutti::sum, {.stream = stream.get()});
      work.wait_on(other.get());
      cuda::Commands commands{context(), other.get()};
      commands.copy(cuda::address_of(copy.span().data()), cuda::address_of(data.span().data()), count * sizeof(float));
      cuda::driver().cuStreamSynchronize(other.get());
      CHECK(same_bits(copy.read(), std::vector<float>(count, static_cast<float>(3 * turn + 3))));
      work.wait();
      work.wait_on(other.get());
    }
    std::vector<float> on_host(3);
    if (comm.rank() > 0) comm.recv(on_host, 0);
    tutti::Work work = comm.async().all_reduce(on_host, tutti::sum);
    if (comm.rank() == 0) {  // the others have not begun, so this call cannot have ended
      CHECK_THROWS_WITH(work.wait_on(other.get()), doctest::Contains("on host memory"));
      for (int peer = 1; peer < comm.size(); ++peer) comm.send(std::vector<float>(3), peer);
    }
    work.wait();
  });
}

TEST_CASE("thousands of calls on three streams and two communicators, among work of the program's own") {
  if (!has_gpu()) return;
  const int calls = tutti::testing::sanitized ? 300 : 10'000;
  on_ranks(2, [&](Communicator& comm) {
    Communicator other = comm.split(0);
    const std::array<cuda::OwnStream, 3> streams{cuda::OwnStream{context()}, cuda::OwnStream{context()},
                                                 cuda::OwnStream{context()}};
    std::vector<OnDevice<std::uint32_t>> data;
    for (std::size_t i = 0; i < streams.size(); ++i) data.emplace_back(std::vector<std::uint32_t>(500));
    std::vector<tutti::Work> works;
    for (int turn = 0; turn < calls; ++turn) {
      const auto i = static_cast<std::size_t>(turn) % streams.size();
      const cuda::Stream stream = streams[i].get();
      cuda::Commands{context(), stream}.fill(cuda::address_of(data[i].span().data()), 1, 4 * 250);
      works.push_back((turn % 2 ? comm : other).async().all_reduce(data[i].span(), tutti::sum, {.stream = stream}));
    }
    tutti::wait_all(works);
    for (const OnDevice<std::uint32_t>& one : data) {
      const auto content = one.read();
      CHECK(std::all_of(content.begin(), content.begin() + 250, [](std::uint32_t x) { return x == 2 * 0x01010101u; }));
      CHECK(std::all_of(content.begin() + 250, content.end(), [](std::uint32_t x) { return x == 0; }));
    }
  });
}

/// No memory is freed while a call is on its way: the driver would keep all ranks of the process out. For
/// ThreadSanitizer, which sees the order of all streams here.
void run_threads_on_streams(const char* mode, const std::vector<const char*>& algorithms,
                            std::span<const cuda::PrimaryContext> gpus = {}) {
  ::setenv("TUTTI_GPU_MODE", mode, 1);
  ::setenv("TUTTI_GPU_SLOT_BYTES", "4096", 1);  // rounds
  constexpr std::size_t count = 5000;
  constexpr std::size_t ranks = 3;
  // One after the other, so that no two of them share a hardware queue, in which one that waits would hold up the
  // other.
  std::vector<cuda::OwnStream> all_streams;
  for (std::size_t i = 0; i < 2 * ranks; ++i) all_streams.emplace_back(gpus.empty() ? context() : gpus[i / 2].get());
  tutti::run_threads(static_cast<int>(ranks), [&](Communicator& comm) {
    if (!gpus.empty()) tutti::testing::context_of_thread() = gpus[static_cast<std::size_t>(comm.rank())].get();
    const std::span streams = std::span{all_streams}.subspan(2 * static_cast<std::size_t>(comm.rank()), 2);
    const std::vector<float> own(count, static_cast<float>(comm.rank() + 1));
    const OnDevice<float> in{own};
    std::vector<OnDevice<float>> sums, gathered;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      sums.emplace_back(std::vector<float>(count));
      gathered.emplace_back(std::vector<float>(ranks * count));
    }
    comm.all_gather(in.span(), gathered[0].span(), {.stream = streams[0].get()});  // they share the default stream
    std::vector<tutti::Work> works;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      const tutti::CallOptions options{.algorithm = algorithms[i], .stream = streams[i % 2].get()};
      works.push_back(comm.async().all_reduce(in.span(), sums[i].span(), tutti::sum, options));
      works.push_back(comm.async().all_gather(in.span(), gathered[i].span(), {.stream = streams[i % 2].get()}));
    }
    tutti::wait_all(works);
    comm.barrier();
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      CHECK(same_bits(sums[i].read(), std::vector<float>(count, 1 + 2 + 3)));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::vector<float> all = gathered[i].read();
        CHECK(std::all_of(all.begin() + static_cast<std::ptrdiff_t>(rank * count),
                          all.begin() + static_cast<std::ptrdiff_t>((rank + 1) * count),
                          [&](float x) { return x == static_cast<float>(rank + 1); }));
      }
    }
    comm.barrier();
  });
  ::unsetenv("TUTTI_GPU_MODE");
  ::unsetenv("TUTTI_GPU_SLOT_BYTES");
}

TEST_CASE("plans on the streams of ranks that are threads") {
  if (!has_gpu() || std::getenv("TUTTI_RANK")) return;
  run_threads_on_streams("streams",
                         {"ring", "tree", "double_binary_tree", "direct", "direct_two_shot", "doubling", "circulant"});
  for (const char* mode : {"leader", "one-shot", "two-shot"})
    run_threads_on_streams(mode, {"direct", "direct_two_shot", "direct"});
}

TEST_CASE("plans on the streams of ranks that are threads, with a GPU each") {
  if (!has_gpu() || std::getenv("TUTTI_RANK")) return;
  int count = 0;
  cuda::driver().cuDeviceGetCount(&count);
  if (count < 3) return;
  std::vector<cuda::PrimaryContext> gpus;
  for (int device = 0; device < 3; ++device) gpus.emplace_back(device);
  for (const char* mode : {"streams", "kernel"})
    run_threads_on_streams(mode, {"direct", "direct_two_shot", "direct"}, gpus);
  const tutti::testing::Setting mode{"TUTTI_GPU_MODE", "two-shot"};
  tutti::run_threads(3, [&](Communicator& comm) {
    tutti::testing::context_of_thread() = gpus[static_cast<std::size_t>(comm.rank())].get();
    const cuda::Current current{context()};
    const OnDevice<float> own{std::vector<float>(1000, 2)};
    const auto array = tutti::gpu::allocate<float>(comm, 1000);
    auto registered = tutti::gpu::register_memory(comm, own.span());
    CHECK(array.is_shared());
    CHECK(registered.is_shared());
    comm.all_reduce(own.span(), array.span(), tutti::sum);
    comm.all_reduce(array.span(), own.span(), tutti::sum);
    CHECK(same_bits(own.read(), std::vector<float>(1000, 2 * 3 * 3)));
    tutti::gpu::deregister_memory(comm, std::move(registered));
  });
}

}  // namespace
