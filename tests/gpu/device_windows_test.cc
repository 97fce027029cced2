// Ranks whose kernels use each other's memory: allocated, registered and copied. Each result has the bits of the same
// call on host memory.

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/device_ranks.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/windows.h"
#include "tests/support/scratch.h"

namespace {

namespace cuda = tutti::cuda;
namespace gpu = tutti::gpu;
using tutti::at;
using tutti::Communicator;
using tutti::ErrorCode;
using tutti::testing::code_of;
using tutti::testing::context;
using tutti::testing::counted;
using tutti::testing::Current;
using tutti::testing::data_of;
using tutti::testing::device_count;
using tutti::testing::DeviceWork;
using tutti::testing::fail_next;
using tutti::testing::get;
using tutti::testing::has_kernels;
using tutti::testing::may_have_windows;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::put;
using tutti::testing::same_bits;
using tutti::testing::Setting;
using tutti::testing::work_of;

/// Every collective that can run by tasks, from one memory to another, and in place where that may be.
void check_all(Communicator& comm, gpu::Span<float> in, gpu::Span<float> out, std::size_t count) {
  const std::size_t n = at(comm.size()), all = n * count;
  const int last = comm.size() - 1;
  const auto part = [](gpu::Span<float> of, std::size_t begin, std::size_t elements) {
    return gpu::Span<float>{of.data() + begin, elements};
  };
  const std::vector<float> own = data_of(comm.rank(), all);
  // `make(calls, in, out)` on host memory, and on the GPU.
  const auto compare = [&](const char* what, std::size_t given, std::size_t taken, bool gets, const auto& make) {
    std::vector<float> from(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(given)), expected(taken, -1);
    make(std::span<float>{from}, std::span<float>{expected}, nullptr);
    put(in, own);
    put(out, std::vector<float>(all, -1));
    make(part(in, 0, given), part(out, 0, taken), nullptr);
    INFO(std::string{what}, " on rank ", comm.rank(), " of ", comm.size());
    if (gets) CHECK(same_bits(get(part(out, 0, taken)), expected));
    CHECK(same_bits(get(part(in, 0, given)), from));
  };
  // `call(part, whole)`, where the part lies in the whole, and so elsewhere on each rank.
  const auto compare_part_in_place = [&](const char* what, const auto& call) {
    const std::size_t begin = at(comm.rank()) * count;
    std::vector<float> expected = own;
    call(std::span{expected}.subspan(begin, count), std::span{expected});
    put(in, own);
    call(part(in, begin, count), part(in, 0, all));
    INFO(std::string{what}, " in place on rank ", comm.rank(), " of ", comm.size());
    CHECK(same_bits(get(part(in, 0, all)), expected));
  };
  const tutti::CallOptions direct{.algorithm = "direct"};
  for (const tutti::Op& op : {tutti::Op{tutti::sum}, tutti::Op{tutti::avg}, tutti::premul_sum(0.3)}) {
    if (!has_kernels()) break;
    compare("all_reduce", all, all, true,
            [&](auto from, auto to, auto) { comm.all_reduce(from, to, op, {.algorithm = "direct_two_shot"}); });
    compare("all_reduce", all, all, true, [&](auto from, auto to, auto) { comm.all_reduce(from, to, op, direct); });
    compare("reduce", all, all, comm.rank() == last,
            [&](auto from, auto to, auto) { comm.reduce(from, to, op, last, direct); });
    compare("reduce_scatter", all, count, true,
            [&](auto from, auto to, auto) { comm.reduce_scatter(from, to, op, direct); });
    compare_part_in_place("reduce_scatter", [&](auto to, auto from) { comm.reduce_scatter(from, to, op, direct); });
    for (const char* algorithm : {"direct", "direct_two_shot"}) {
      std::vector<float> expected = own;
      comm.all_reduce(expected, op, {.algorithm = algorithm});
      put(in, own);
      comm.all_reduce(part(in, 0, all), op, {.algorithm = algorithm});
      CHECK(same_bits(get(part(in, 0, all)), expected));
    }
  }
  compare("all_gather", count, all, true, [&](auto from, auto to, auto) { comm.all_gather(from, to, direct); });
  compare_part_in_place("all_gather", [&](auto from, auto to) { comm.all_gather(from, to, direct); });
  compare("gather", count, all, comm.rank() == last,
          [&](auto from, auto to, auto) { comm.gather(from, to, last, direct); });
  compare("scatter", all, count, true, [&](auto from, auto to, auto) { comm.scatter(from, to, last, direct); });
  compare("all_to_all", all, all, true, [&](auto from, auto to, auto) { comm.all_to_all(from, to, direct); });
  std::vector<float> expected = own;
  comm.broadcast(expected, last, direct);
  put(in, own);
  comm.broadcast(part(in, 0, all), last, direct);
  CHECK(same_bits(get(part(in, 0, all)), expected));
}

/// `kernel` takes a GPU for each of three ranks.
std::vector<const char*> modes() {
  std::vector<const char*> all{"leader", "one-shot", "two-shot"};
  if (device_count() >= 3) all.push_back("kernel");
  return all;
}

TEST_CASE("windows: collectives with memory that was allocated, registered, or is copied") {
  if (!may_have_windows()) return;
  constexpr std::size_t count = 3001;
  for (const char* mode : modes()) {
    const Setting setting{"TUTTI_GPU_MODE", mode};
    on_ranks(3, [&](Communicator& comm) {
      const Current current;
      const std::size_t all = count * at(comm.size());
      auto in = gpu::allocate<float>(comm, all + 64), out = gpu::allocate<float>(comm, all + 64);
      CHECK(in.is_shared());
      CHECK(out.size() == all + 64);
      INFO("mode ", std::string{mode});
      check_all(comm, in.span(), out.span(), count);
      check_all(comm, {in.data() + 16, all}, {out.data() + 4, all}, count);  // the same offset on all ranks

      const OnDevice<float> own{std::vector<float>(2 * all + 100)};
      const auto begin = at(comm.rank() + 1) * 8;  // where a rank likes
      gpu::Registration registered = gpu::register_memory(comm, own.part(begin, 2 * all + 10));
      CHECK(registered.is_shared());
      check_all(comm, own.part(begin, all), own.part(begin + all + 8, all), count);
      check_all(comm, own.part(begin, all), out.span(), count);  // one in each kind of memory
      const OnDevice<float> copied{std::vector<float>(all)};
      check_all(comm, copied.span(), out.span(), count);
      check_all(comm, own.part(begin, all), copied.span(), count);
      gpu::deregister_memory(comm, std::move(registered));
      check_all(comm, own.part(begin, all), own.part(begin + all + 8, all), count);
    });
  }
}

TEST_CASE("windows: of a vector in place each rank may have registered its part alone") {
  if (!may_have_windows()) return;
  constexpr std::size_t count = 1000;
  for (const char* mode : modes()) {
    const Setting setting{"TUTTI_GPU_MODE", mode};
    on_ranks(3, [&](Communicator& comm) {
      const Current current;
      const std::size_t begin = at(comm.rank()) * count;
      const std::vector<float> own = data_of(comm.rank(), 3 * count);
      const OnDevice<float> data{own};
      gpu::Registration registered = gpu::register_memory(comm, data.part(begin, count));
      std::vector<float> expected = own;
      comm.all_gather(std::span{expected}.subspan(begin, count), std::span{expected});
      comm.all_gather(data.part(begin, count), data.span(), {.algorithm = "direct"});
      INFO("mode ", std::string{mode});
      CHECK(same_bits(data.read(), expected));
      gpu::deregister_memory(comm, std::move(registered));
    });
  }
}

TEST_CASE("windows: a part is in place on all ranks, or on none") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "one-shot"};
  on_ranks(3, [](Communicator& world) {
    const Current current;
    std::optional<Communicator> comm{world.split(0)};
    auto data = gpu::allocate<float>(*comm, 600);
    std::string text;
    const auto call = [&] {
      comm->all_gather(gpu::span(data.data() + 100 * at(comm->rank()), 100),
                       gpu::span(data.data() + (comm->rank() == 0 ? 300 : 0), 300));
    };
    CHECK(code_of(call, text) == ErrorCode::mismatch);
    INFO(text);
    CHECK(text.find("memory at the same offset") != text.npos);
    world.barrier();
    comm.reset();
    world.barrier();
  });
}

TEST_CASE("windows: each rank's factor of premul_sum holds for its own input") {
  if (!may_have_windows()) return;
  for (const char* mode : modes()) {
    const Setting setting{"TUTTI_GPU_MODE", mode};
    on_ranks(3, [&](Communicator& comm) {
      const Current current;
      const std::vector<float> own = data_of(comm.rank(), 1000);
      const tutti::Op op = tutti::premul_sum(0.5 * (comm.rank() + 1));
      auto in = gpu::allocate<float>(comm, 1000), out = gpu::allocate<float>(comm, 1000);
      const OnDevice<float> copied{own};
      INFO("mode ", std::string{mode});
      for (const char* algorithm : {"direct", "direct_two_shot", "ring"}) {
        std::vector<float> expected(1000);
        comm.all_reduce(own, expected, op, {.algorithm = algorithm});
        put(in.span(), own);
        comm.all_reduce(in.span(), out.span(), op, {.algorithm = algorithm});
        CHECK(same_bits(get(out.span()), expected));
        comm.all_reduce(copied.span(), out.span(), op, {.algorithm = algorithm});
        CHECK(same_bits(get(out.span()), expected));
      }
      comm.barrier();
    });
  }
}

TEST_CASE("windows: a leader runs one kernel, and nobody copies") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "leader"};
  on_ranks(3, [](Communicator& comm) {
    const Current current;
    auto in = gpu::allocate<float>(comm, 5000), out = gpu::allocate<float>(comm, 5000);
    const int devices = device_count();
    const DeviceWork one = work_of([&] { comm.all_reduce(in.span(), out.span(), tutti::sum); });
    const bool leads = devices > 1 || comm.rank() == 0;
    CHECK(one.kernels == (leads && DeviceWork::so_far().kernels > 0 ? 1 : 0));
    CHECK(one.copied == 0);
    const DeviceWork in_place = work_of([&] { comm.all_reduce(in.span(), tutti::sum); });
    CHECK(in_place.copied == (devices > 1 ? 5000 * sizeof(float) : 0));  // of the input, which others still read
    const OnDevice<float> copied{std::vector<float>(5000)};
    const DeviceWork staged = work_of([&] { comm.all_reduce(copied.span(), tutti::sum); });
    CHECK(staged.copied >= (leads ? 0 : 2 * 5000 * sizeof(float)));
    comm.barrier();
  });
}

TEST_CASE("windows: bytes that move in a call, and its commands, are those that were promised") {
  if (!may_have_windows()) return;
  constexpr std::size_t n = 3, count = 3 * 4096, size = count * sizeof(float);
  const auto run = [](const char* mode, const char* algorithm, const auto& check) {
    const Setting setting{"TUTTI_GPU_MODE", mode};
    on_ranks(n, [&](Communicator& comm) {
      const Current current;
      auto in = gpu::allocate<float>(comm, count), out = gpu::allocate<float>(comm, count);
      const auto call = [&] { comm.all_reduce(in.span(), out.span(), tutti::sum, {.algorithm = algorithm}); };
      call();  // which also sets up
      const DeviceWork own = work_of(call);
      if (DeviceWork::so_far().commands == 0) return;  // a real driver does not count
      std::vector<std::uint64_t> all(n * sizeof own / sizeof(std::uint64_t));
      comm.all_gather(std::span{reinterpret_cast<const std::uint64_t*>(&own), sizeof own / sizeof(std::uint64_t)}, all);
      const auto* const by_rank = reinterpret_cast<const DeviceWork*>(all.data());
      for (std::size_t rank = 0; comm.rank() == 0 && rank < n; ++rank)
        std::printf("%s %s, rank %zu of %zu: %d commands, %d kernels\n", mode, algorithm, rank, n,
                    static_cast<int>(by_rank[rank].commands), static_cast<int>(by_rank[rank].kernels));
      INFO(std::string{mode});
      check(std::span{by_rank, n}, at(comm.rank()));
      comm.barrier();
    });
  };
  // The event behind the call, and the function of the host that notices its end.
  constexpr std::size_t around = 2;
  if (device_count() == 1)
    run("leader", "direct", [&](std::span<const DeviceWork> all, std::size_t rank) {
      std::size_t moved = 0;
      for (const DeviceWork& one : all) moved += one.read + one.written;
      CHECK(moved == 2 * n * size);
      CHECK(all[rank].commands == (rank == 0 ? 2 * (n - 1) + 1 : 3) + around);
    });
  run("one-shot", "direct", [&](std::span<const DeviceWork> all, std::size_t rank) {
    CHECK(all[rank].read == n * size);
    CHECK(all[rank].read_of_others == (n - 1) * size);
    CHECK(all[rank].written == size);
    CHECK(all[rank].written_of_others == 0);
    CHECK(all[rank].commands == 5 * (n - 1) + 1 + around);
  });
  run("two-shot", "direct_two_shot", [&](std::span<const DeviceWork> all, std::size_t rank) {
    CHECK(all[rank].read_of_others + all[rank].written_of_others == 2 * (n - 1) * size / n);
    CHECK(all[rank].read + all[rank].written == 2 * size);
    CHECK(all[rank].commands == 5 * (n - 1) + 1 + around);
  });
  if (device_count() >= static_cast<int>(n))  // nothing but one kernel
    for (const char* algorithm : {"direct", "direct_two_shot"})
      run("kernel", algorithm, [&](std::span<const DeviceWork> all, std::size_t rank) {
        const bool is_one_shot = std::string{algorithm} == "direct";
        CHECK(all[rank].read == (is_one_shot ? n * size : size));
        CHECK(all[rank].written == size);
        CHECK(all[rank].commands == 1 + around);
      });
  run("streams", "ring", [&](std::span<const DeviceWork> all, std::size_t rank) {
    CHECK(all[rank].written_of_others == 2 * (n - 1) * size / n);
    CHECK(all[rank].read_of_others == 0);
    CHECK(all[rank].commands <= 2 * (n - 1) * 6 + 2 + around);
  });
}

TEST_CASE("windows: memory that is let go while calls are on their way") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "leader"};
  std::optional<gpu::Array<float>> outlives;
  on_ranks(3, [&](Communicator& comm) {
    const Current current;
    const cuda::OwnStream stream{context()};
    std::vector<float> own(2000), expected(2000);  // whose sums are exact in any order
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = static_cast<float>(i + at(comm.rank()));
      expected[i] = static_cast<float>(3 * i + 3);
    }
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<tutti::Work> works;
      auto kept = gpu::allocate<float>(comm, 2000);
      put(kept.span(), std::vector<float>(2000));
      {
        auto data = gpu::allocate<float>(comm, 2000), result = gpu::allocate<float>(comm, 2000);
        put(data.span(), own);
        for (int call = 0; call < 3; ++call)
          works.push_back(comm.async().all_reduce(data.span(), call == 2 ? kept.span() : result.span(), tutti::sum,
                                                  {.stream = stream.get()}));
      }
      tutti::wait_all(works);
      cuda::driver().cuStreamSynchronize(stream.get());
      CHECK(same_bits(get(kept.span()), expected));
    }
    outlives.emplace(gpu::allocate<float>(comm, 100));
    put(outlives->span(), std::vector<float>(100, 1));
    comm.all_reduce(outlives->span(), tutti::sum);
    comm.barrier();
  });
  if (outlives) CHECK(same_bits(get(outlives->span()), std::vector<float>(100, 3)));
}

TEST_CASE("windows: what one rank registers or allocates in vain is an error on all of them, at once") {
  if (!may_have_windows()) return;
  const Setting setting{"TUTTI_GPU_MODE", "two-shot"};
  on_ranks(3, [&](Communicator& comm) {
    const Current current;
    const OnDevice<float> data{std::vector<float>(100)};
    std::vector<float> on_host(100);
    const bool wrong = comm.rank() == 1;
    std::string text;
    const auto check = [&](ErrorCode own, const char* why, const char* of_others, const auto& call) {
      CHECK(code_of(call, text) == (wrong ? own : ErrorCode::mismatch));
      INFO(text);
      CHECK(text.find(wrong ? why : of_others) != text.npos);
    };
    const auto refused = [&](gpu::Span<float> given, const char* why) {
      check(ErrorCode::invalid_argument, why, "rank 1 cannot register its memory; it says why",
            [&] { (void)gpu::register_memory(comm, wrong ? given : data.span()); });
    };
    refused({}, "no elements: give those of a buffer");
    refused({on_host.data(), on_host.size()}, "as device memory: only memory of a GPU can be registered");
    refused({nullptr, 100}, "memory is memory of the host");
    refused({data.span().data(), std::size_t{1} << 60}, "more than any memory holds");
    check(ErrorCode::invalid_argument, "more than any memory holds", "rank 1 cannot allocate memory; it says why",
          [&] { (void)gpu::allocate<float>(comm, wrong ? std::size_t{1} << 60 : 100); });
    CHECK(gpu::allocate<float>(comm, 100).is_shared());
    // Nothing is shared where links are all there is.
    const Setting links{"TUTTI_GPU_MODE", "streams"};
    Communicator other = comm.split(0);
    CHECK_FALSE(gpu::allocate<float>(other, 100).is_shared());
    if (counted("fake_cuda_calls") == 0) return;  // a real driver does not fail when asked to
    if (wrong) fail_next("cuMemAlloc", cuda::Result::out_of_memory);
    check(ErrorCode::system, "cuMemAlloc", "rank 1 cannot allocate memory; it says why",
          [&] { (void)gpu::allocate<float>(other, 100); });
    CHECK(gpu::allocate<float>(other, 100).size() == 100);
    comm.barrier();
  });
}

TEST_CASE("windows: a rank without memory for a call on streams tells the others at once") {
  if (!may_have_windows() || counted("fake_cuda_calls") == 0) return;  // a real driver does not fail when asked to
  const Setting setting{"TUTTI_GPU_MODE", "streams"};
  // The function of the driver in whose place memory is refused, by the GPU or by the host: when the call is prepared,
  // and when it is enqueued.
  const auto check = [](const char* function, cuda::Result result, const char* name, const char* why) {
    on_ranks(3, [&](Communicator& comm) {
      const Current current;
      constexpr std::size_t count = 1'000'000;  // more than the memory that the trial of links has left
      const std::vector<std::size_t> counts(3, count), displacements{0, count + 1, 2 * (count + 1)};
      const OnDevice<float> in{std::vector<float>(count)}, out{std::vector<float>(3 * (count + 1))};
      Communicator other = comm.split(0);
      const OnDevice<float> any{std::vector<float>(8, 1)};
      other.all_reduce(any.span(), tutti::sum);  // sets up
      comm.barrier();                            // an abort would end the call above where it still runs
      const bool fails = comm.rank() == 1;
      if (fails) fail_next(function, result);
      std::string text;
      const auto call = [&] {
        other.all_gather_v(in.span(), out.span(), {counts, displacements}, {.timeout = std::chrono::seconds{10}});
      };
      CHECK(code_of(call, text) == (fails ? ErrorCode::system : ErrorCode::aborted));
      INFO(text);
      CHECK(text.find(fails ? name : "rank 1") != text.npos);
      CHECK(text.find(why) != text.npos);
      comm.barrier();
    });
  };
  check("cuMemCreate", cuda::Result::out_of_memory, "all_gather_v on rank 1 of 3: ", "cuMemCreate");
  check("cuMemCreate", fake_cuda::no_memory_of_host, "all_gather_v on rank 1 of 3: ", "bad_alloc");
  check("cuStreamBatchMemOp", fake_cuda::no_memory_of_host, "on rank 1 of 3: ", "bad_alloc");
}

}  // namespace
