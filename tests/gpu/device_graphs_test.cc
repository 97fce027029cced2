// Calls that are captured into graphs: each launch has the bits of the same call on host memory.

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
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
using tutti::testing::CapturedGraph;
using tutti::testing::context;
using tutti::testing::Current;
using tutti::testing::data_of;
using tutti::testing::get;
using tutti::testing::has_gpu;
using tutti::testing::has_kernels;
using tutti::testing::is_thread;
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
using tutti::testing::captures::Way;
using tutti::testing::captures::ways;

TEST_CASE("graphs: a call that was captured runs at each launch") {
  if (!may_have_windows()) return;
  in_each_way([](Communicator& comm, const char* algorithm) {
    const cuda::OwnStream stream{context()};
    auto in = gpu::allocate<float>(comm, captured_count), out = gpu::allocate<float>(comm, captured_count);
    const OnDevice<float> own_in{std::vector<float>(captured_count)}, own_out{std::vector<float>(captured_count)};
    for (const bool allocated : {true, false}) {
      const gpu::Span<float> from = allocated ? in.span() : own_in.span(), to = allocated ? out.span() : own_out.span();
      tutti::Work work;
      const CapturedGraph graph = captured(stream, [&] {
        work = comm.async().all_reduce(from, to, tutti::sum, {.algorithm = algorithm, .stream = stream.get()});
      });
      work.wait();  // there is nothing to wait for
      const cuda::OwnStream other{context()};
      // Its capture has ended, and is kept apart from this one.
      const CapturedGraph empty = captured(other, [&] { work.wait_on(other.get()); });
      for (int turn = 0; turn < 3; ++turn) {
        put(from, data_of(comm.rank() + turn, captured_count));
        graph.launch(stream.get());
        synchronize(stream);
        CHECK(same_bits(get(to), sum_of(comm, turn, captured_count, algorithm)));
      }
      // Ranks may be ahead of each other.
      const int launches = tutti::testing::sanitized ? 50 : 1000;
      for (int turn = 0; turn < launches; ++turn) graph.launch(stream.get());
      synchronize(stream);
      CHECK(same_bits(get(to), sum_of(comm, 2, captured_count, algorithm)));
      comm.barrier();
    }
  });
}

TEST_CASE("graphs: two of them, with several calls each, alternate with calls that are not captured") {
  if (!may_have_windows()) return;
  in_each_way([](Communicator& comm, const char* algorithm) {
    const cuda::OwnStream stream{context()};
    const tutti::CallOptions options{.algorithm = algorithm, .stream = stream.get()};
    const tutti::CallOptions direct{.algorithm = "direct", .stream = stream.get()};
    auto data = gpu::allocate<float>(comm, captured_count), own = gpu::allocate<float>(comm, captured_count);
    auto all = gpu::allocate<float>(comm, captured_count * capturing_ranks),
         told = gpu::allocate<float>(comm, captured_count);
    const OnDevice<float> copied{std::vector<float>(captured_count)};
    const CapturedGraph sums = captured(stream, [&] {
      (void)comm.async().all_reduce(data.span(), tutti::sum, options);
      (void)comm.async().all_reduce(data.span(), copied.span(), tutti::sum, options);
    });
    const CapturedGraph copies = captured(stream, [&] {
      (void)comm.async().all_gather(own.span(), all.span(), direct);
      (void)comm.async().broadcast(told.span(), 2, direct);
    });
    for (int turn = 0; turn < 12; ++turn) {
      put(data.span(), data_of(comm.rank() + turn, captured_count));
      put(own.span(), data_of(comm.rank() + turn + 50, captured_count));
      put(told.span(), data_of(comm.rank() + turn + 90, captured_count));
      std::vector<tutti::Work> works;
      if (turn % 3 != 1) copies.launch(stream.get());
      if (turn % 2 == 0) works.push_back(comm.async().all_reduce(data.span(), tutti::sum, options));
      sums.launch(stream.get());
      if (turn % 4 == 3) sums.launch(stream.get());
      works.push_back(comm.async().all_reduce(copied.span(), tutti::sum, options));
      tutti::wait_all(works);
      std::vector<float> sum = data_of(comm.rank() + turn, captured_count);
      const int calls = (turn % 2 == 0 ? 4 : 3) + (turn % 4 == 3 ? 1 : 0);
      for (int call = 0; call < calls; ++call) comm.all_reduce(sum, tutti::sum, {.algorithm = algorithm});
      CHECK(same_bits(get(copied.span()), sum));
      if (turn % 3 == 1) continue;
      for (int rank = 0; rank < capturing_ranks; ++rank)
        CHECK(same_bits(get({all.data() + at(rank) * captured_count, captured_count}),
                        data_of(rank + turn + 50, captured_count)));
      CHECK(same_bits(get(told.span()), data_of(2 + turn + 90, captured_count)));
    }
  });
}

TEST_CASE("graphs: calls in several streams of a capture come one after the other") {
  if (!may_have_windows()) return;
  in_each_way([](Communicator& comm, const char* algorithm) {
    const cuda::OwnStream stream{context()}, other{context()}, third{context()};
    const cuda::OwnEvent fork{context()}, join{context()};
    const OnDevice<float> one{std::vector<float>(captured_count)}, two{std::vector<float>(captured_count)};
    const CapturedGraph graph = captured(stream, [&] {
      cuda::Commands to{context(), stream.get()}, to_other{context(), other.get()};
      to.record(fork.get());
      to_other.wait(fork.get());
      const auto call = [&](const OnDevice<float>& data, const cuda::OwnStream& in) {
        return comm.async().all_reduce(data.span(), tutti::sum, {.algorithm = algorithm, .stream = in.get()});
      };
      (void)call(one, stream);
      {
        const cuda::KnowsOfCapture knows;
        (void)captured(third, [&] { (void)call(one, third); });  // another capture, meanwhile
      }
      tutti::Work work = call(two, other);  // at the same time, as far as the program says
      work.wait_on(stream.get());
      to.copy(cuda::address_of(one.span().data()), cuda::address_of(two.span().data()), 4 * sizeof(float));
    });
    for (int turn = 0; turn < 3; ++turn) {
      put(one.span(), data_of(comm.rank() + turn, captured_count));
      put(two.span(), data_of(comm.rank() + turn + 7, captured_count));
      graph.launch(stream.get());
      synchronize(stream);
      std::vector<float> first = sum_of(comm, turn, captured_count, algorithm);
      const std::vector<float> second = sum_of(comm, turn + 7, captured_count, algorithm);
      CHECK(same_bits(get(two.span()), second));
      std::copy(second.begin(), second.begin() + 4, first.begin());
      CHECK(same_bits(get(one.span()), first));
    }
    comm.barrier();
  });
}

TEST_CASE("graphs: parts of different sizes, with gaps between them") {
  if (!may_have_windows()) return;
  const Setting mode{"TUTTI_GPU_MODE", "streams"}, slot{"TUTTI_GPU_SLOT_BYTES", "4096"};
  on_ranks(capturing_ranks, [](Communicator& comm) {
    const Current current;
    const cuda::OwnStream stream{context()};
    const OnDevice<float> first{std::vector<float>(8, 1)};
    comm.all_reduce(first.span(), tutti::sum);  // agrees how calls run
    const std::vector<std::size_t> counts{700, 0, 1500}, displacements{10, 800, 900};
    const std::size_t own = counts[at(comm.rank())];
    const OnDevice<float> in{std::vector<float>(own)}, out{std::vector<float>(2500)};
    const CapturedGraph graph = captured(stream, [&] {
      (void)comm.async().all_gather_v(in.span(), out.span(), {counts, displacements}, {.stream = stream.get()});
    });
    for (int turn = 0; turn < 2; ++turn) {
      put(in.span(), data_of(comm.rank() + turn, own));
      graph.launch(stream.get());
      synchronize(stream);
      for (int rank = 0; rank < capturing_ranks; ++rank)
        CHECK(same_bits(get(out.part(displacements[at(rank)], counts[at(rank)])),
                        data_of(rank + turn, counts[at(rank)])));
    }
    comm.barrier();
  });
}

TEST_CASE("graphs: one that is never launched changes nothing, and may go before or after its communicator") {
  if (!may_have_windows()) return;
  in_each_way([](Communicator& world, const char* algorithm) {
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(captured_count)};
    std::optional<CapturedGraph> outlives;
    std::optional<gpu::Array<float>> array;
    {
      Communicator comm = world.split(0);
      comm.all_reduce(data.span(), tutti::sum, {.algorithm = algorithm});
      array.emplace(gpu::allocate<float>(comm, captured_count));
      const auto capture = [&] {
        return captured(stream, [&] {
          (void)comm.async().all_reduce(data.span(), array->span(), tutti::sum,
                                        {.algorithm = algorithm, .stream = stream.get()});
        });
      };
      (void)capture();  // never launched
      outlives.emplace(capture());
      if (array->is_shared()) array.reset();  // the graph keeps its memory
      for (int turn = 0; turn < 3; ++turn) {
        outlives->launch(stream.get());
        synchronize(stream);
        put(data.span(), data_of(comm.rank() + turn, captured_count));
        comm.all_reduce(data.span(), tutti::sum, {.algorithm = algorithm});
        CHECK(same_bits(get(data.span()), sum_of(comm, turn, captured_count, algorithm)));
      }
      (void)gpu::allocate<float>(comm, 8);  // lets go of what is gone
      comm.barrier();
    }
    // The result is worthless, but no stream waits for anybody, though other ranks write to its words.
    for (int turn = 0; turn < 50 * (world.rank() + 1) && world.rank() != 1; ++turn) outlives->launch(stream.get());
    synchronize(stream);
    world.barrier();
  });
}

TEST_CASE("graphs: on the streams of ranks that are threads") {
  if (!has_gpu() || !has_kernels() || !is_thread()) return;
  for (const Way& way : ways) {
    const Setting mode{"TUTTI_GPU_MODE", way.mode}, slot{"TUTTI_GPU_SLOT_BYTES", "4096"};
    std::vector<cuda::OwnStream> streams;
    for (int i = 0; i < capturing_ranks; ++i) streams.emplace_back(context());
    tutti::run_threads(capturing_ranks, [&](Communicator& comm) {
      const Current current;
      const cuda::OwnStream& stream = streams[at(comm.rank())];
      const std::vector<float> own = data_of(comm.rank(), captured_count);
      const OnDevice<float> in{own}, once{std::vector<float>(captured_count)},
          twice{std::vector<float>(captured_count)};
      const tutti::CallOptions options{.algorithm = way.algorithm, .stream = stream.get()};
      comm.all_reduce(in.span(), once.span(), tutti::sum, options);
      const CapturedGraph graph = captured(stream, [&] {
        (void)comm.async().all_reduce(in.span(), once.span(), tutti::sum, options);
        (void)comm.async().all_reduce(once.span(), twice.span(), tutti::sum, options);
      });
      for (int turn = 0; turn < 4; ++turn) {
        graph.launch(stream.get());
        if (turn == 1) comm.all_reduce(in.span(), once.span(), tutti::sum, options);
      }
      synchronize(stream);
      std::vector<float> expected = sum_of(comm, 0, captured_count, way.algorithm);
      comm.all_reduce(expected, tutti::sum, {.algorithm = way.algorithm});
      comm.barrier();
      CHECK(same_bits(twice.read(), expected));
      comm.barrier();
    });
  }
}

}  // namespace
