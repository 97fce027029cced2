// Collectives and messages on device memory: each result has the bits of the same call on host memory. Runs on the
// driver that is there, a GPU's or the fake one (tests/support/fake_cuda).

#include <doctest/doctest.h>
#include <tutti/c.h>
#include <tutti/gpu.h>
#include <tutti/run_threads.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/on_device.h"
#include "tests/support/sample.h"

namespace {

namespace cuda = tutti::cuda;
namespace gpu = tutti::gpu;
using tutti::Communicator;
using tutti::testing::context;
using tutti::testing::has_gpu;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::same_bits;

template <class T>
std::vector<T> data_of(int rank, std::size_t count) {
  std::vector<T> data(count);
  std::mt19937 random{static_cast<unsigned>(rank + 1) * 977u + static_cast<unsigned>(count)};
  for (T& x : data) x = static_cast<T>(static_cast<float>(random() % 64) / 4.0f - 3.0f);
  return data;
}

enum class CallWay { wait, start, prepare };

/// Makes a call on device memory in one of the three ways: `call(calls)` gets the object with the collectives.
template <class Call>
void make(Communicator& comm, CallWay way, const Call& call) {
  if (way == CallWay::wait) {
    call(comm);
  } else if (way == CallWay::start) {
    auto calls = comm.async();
    call(calls).wait();
  } else {
    auto calls = comm.prepare();
    tutti::Persistent prepared = call(calls);
    prepared.run();
  }
}

constexpr std::array call_ways{CallWay::wait, CallWay::start, CallWay::prepare};

/// All collectives with this type and op, on `count` elements per part.
template <class T>
struct Cases {
  Communicator& comm;
  CallWay way;
  std::size_t count;
  tutti::Op op;
  tutti::CallOptions options;
  int checked = 0;

  std::size_t n() const { return static_cast<std::size_t>(comm.size()); }
  int root() const { return comm.size() - 1; }

  /// `call(calls, in, out)`, on the host and on the device. Outputs begin with the same garbage.
  template <class Call>
  void compare(const char* name, std::size_t in_count, std::size_t out_count, const Call& call) {
    const std::vector<T> in = data_of<T>(comm.rank(), in_count);
    std::vector<T> host = data_of<T>(100 + comm.rank(), out_count);
    OnDevice<T> device_in{in}, device_out{host};
    call(comm, std::span{in}, std::span{host});
    make(comm, way, [&](auto& calls) { return call(calls, device_in.span(), device_out.span()); });
    INFO(name << " of " << count << " elements, way " << static_cast<int>(way) << ", rank " << comm.rank());
    CHECK(same_bits(device_out.read(), host));
    CHECK(same_bits(device_in.read(), in));
    ++checked;
  }
  template <class Call>
  void compare_in_place(const char* name, std::size_t size, const Call& call) {
    std::vector<T> host = data_of<T>(comm.rank(), size);
    OnDevice<T> device{host};
    call(comm, std::span{host});
    make(comm, way, [&](auto& calls) { return call(calls, device.span()); });
    INFO(name << " in place, of " << count << " elements, way " << static_cast<int>(way) << ", rank " << comm.rank());
    CHECK(same_bits(device.read(), host));
    ++checked;
  }
  /// The part of this rank lies in the vector of all parts. `call(calls, part, whole)`
  template <class Call>
  void compare_part_in_place(const char* name, std::size_t place, std::size_t own, std::size_t size, const Call& call) {
    std::vector<T> host = data_of<T>(comm.rank(), size);
    OnDevice<T> device{host};
    call(comm, std::span{host}.subspan(place, own), std::span{host});
    make(comm, way, [&](auto& calls) { return call(calls, device.part(place, own), device.span()); });
    INFO(name << " in place, of " << count << " elements, way " << static_cast<int>(way) << ", rank " << comm.rank());
    CHECK(same_bits(device.read(), host));
    ++checked;
  }

  void run() {
    const auto all = n() * count;
    compare("all_gather", count, all, [&](auto& c, auto in, auto out) { return c.all_gather(in, out, options); });
    compare("all_to_all", all, all, [&](auto& c, auto in, auto out) { return c.all_to_all(in, out, options); });
    compare("scatter", all, count, [&](auto& c, auto in, auto out) { return c.scatter(in, out, root(), options); });
    compare("gather", count, all, [&](auto& c, auto in, auto out) { return c.gather(in, out, root(), options); });
    compare_in_place("broadcast", count, [&](auto& c, auto data) { return c.broadcast(data, root(), options); });
    compare_in_place("all_to_all", all, [&](auto& c, auto data) { return c.all_to_all(data, data, options); });
    compare("all_reduce", count, count, [&](auto& c, auto in, auto out) { return c.all_reduce(in, out, op, options); });
    compare_in_place("all_reduce", count, [&](auto& c, auto data) { return c.all_reduce(data, op, options); });
    compare("reduce", count, count, [&](auto& c, auto in, auto out) { return c.reduce(in, out, op, root(), options); });
    compare("reduce_scatter", all, count,
            [&](auto& c, auto in, auto out) { return c.reduce_scatter(in, out, op, options); });
    if (op.kind() == tutti::OpKind::avg) return;
    compare("scan", count, count, [&](auto& c, auto in, auto out) { return c.scan(in, out, op, options); });
    compare("exclusive_scan", count, count,
            [&](auto& c, auto in, auto out) { return c.exclusive_scan(in, out, op, options); });
  }

  void run_parts() {
    std::vector<std::size_t> counts(n()), places(n());
    for (std::size_t k = 0; k < n(); ++k) counts[k] = k % 3 == 1 ? 0 : count + k;
    std::size_t end = 0;  // the last part is the first in memory
    for (std::size_t k = n(); k-- > 0;) places[k] = end, end += counts[k] + 2;
    const std::size_t own = counts[static_cast<std::size_t>(comm.rank())];
    const std::size_t place = places[static_cast<std::size_t>(comm.rank())];
    const tutti::Counts parts{counts, places};
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    compare("all_gather_v", own, end,
            [&](auto& c, auto in, auto out) { return c.all_gather_v(in, out, parts, options); });
    compare("all_gather_v", own, total,
            [&](auto& c, auto in, auto out) { return c.all_gather_v(in, out, counts, options); });
    compare("gather_v", own, end,
            [&](auto& c, auto in, auto out) { return c.gather_v(in, out, parts, root(), options); });
    compare("scatter_v", end, own,
            [&](auto& c, auto in, auto out) { return c.scatter_v(in, parts, out, root(), options); });
    compare("reduce_scatter_v", end, own,
            [&](auto& c, auto in, auto out) { return c.reduce_scatter_v(in, out, parts, op, options); });
    compare_part_in_place("all_gather_v", place, own, end,
                          [&](auto& c, auto part, auto all) { return c.all_gather_v(part, all, parts, options); });
    compare_part_in_place("gather_v", place, own, end,
                          [&](auto& c, auto part, auto all) { return c.gather_v(part, all, parts, root(), options); });
    compare_part_in_place("scatter_v", place, own, end,
                          [&](auto& c, auto part, auto all) { return c.scatter_v(all, parts, part, root(), options); });
    compare_part_in_place("reduce_scatter_v", place, own, end, [&](auto& c, auto part, auto all) {
      return c.reduce_scatter_v(all, part, parts, op, options);
    });
  }
};

template <class T>
void all_cases(int ranks, std::initializer_list<std::size_t> counts, std::initializer_list<tutti::Op> ops) {
  std::atomic<int> checked{0};
  const bool is_member = on_ranks(ranks, [&](Communicator& comm) {
    for (const std::size_t count : counts)
      for (const tutti::Op& op : ops)
        for (const CallWay way : call_ways) {
          Cases<T> cases{comm, way, count, op, {}};
          cases.run();
          if (way != CallWay::prepare || count > 0) cases.run_parts();
          checked += cases.checked;
        }
  });
  CHECK((!is_member || checked > 0));
}

TEST_CASE("each collective has the bits of the call on host memory") {
  if (!has_gpu()) return;
  const tutti::Op larger = tutti::user_op<float>([](float a, float b) { return a > b ? a : b; });
  for (const int ranks : {1, 3}) {  // stream_matrix_test.cc has others
    INFO(ranks << " ranks");
    all_cases<float>(ranks, {7, 1000}, {tutti::sum, tutti::avg, tutti::premul_sum(0.5), larger});
    all_cases<float>(ranks, {0, 1, 40'000}, {tutti::sum});
    all_cases<int>(ranks, {5}, {tutti::max, tutti::bxor});
    all_cases<tutti::f16>(ranks, {33}, {tutti::sum, tutti::min});
    if (ranks == 3) all_cases<double>(ranks, {100'003}, {tutti::product});
  }
}

TEST_CASE("algorithms have the bits of the same algorithm on host memory") {
  if (!has_gpu()) return;
  on_ranks(4, [](Communicator& comm) {
    for (const tutti::algorithms::Entry& entry : tutti::algorithms::catalogue(tutti::Collective::all_reduce))
      for (const CallWay way : call_ways) {
        const std::vector<float> in = data_of<float>(comm.rank(), 5003);
        std::vector<float> host(in.size());
        const OnDevice<float> device_in{in}, device_out{host};
        const tutti::CallOptions options{.algorithm = entry.name};
        comm.all_reduce(in, host, tutti::sum, options);
        make(comm, way,
             [&](auto& calls) { return calls.all_reduce(device_in.span(), device_out.span(), tutti::sum, options); });
        INFO(entry.name);
        CHECK(same_bits(device_out.read(), host));
      }
  });
}

TEST_CASE("calls of C take device memory, too") {
  if (!has_gpu() || std::getenv("TUTTI_RANK")) return;
  tutti_comm* comm = nullptr;
  REQUIRE(tutti_connect(nullptr, &comm) == TUTTI_OK);
  const OnDevice<float> in{{1, 2, 3}}, out{{0, 0, 0}};
  tutti_call_options options{};
  options.size = sizeof options;
  options.on_device = 1;
  CHECK(tutti_all_reduce(comm, in.span().data(), out.span().data(), 3, TUTTI_F32, TUTTI_SUM, &options) == TUTTI_OK);
  CHECK(same_bits(out.read(), {1, 2, 3}));
  CHECK(tutti_all_reduce(comm, in.span().data(), out.span().data(), 3, TUTTI_F32, TUTTI_SUM, nullptr) ==
        TUTTI_INVALID_ARGUMENT);

  const OnDevice<float> sent{{4, 5}}, got{{0, 0, 0}};
  tutti_work* work = nullptr;
  tutti_status status{};
  CHECK(tutti_send(comm, sent.span().data(), 2, TUTTI_F32, 0, 7, nullptr) == TUTTI_INVALID_ARGUMENT);
  tutti_call_options started = options;
  started.work = &work;
  REQUIRE(tutti_send(comm, sent.span().data(), 2, TUTTI_F32, 0, 7, &started) == TUTTI_OK);
  CHECK(tutti_recv(comm, got.span().data(), 3, TUTTI_F32, 0, 7, &options, &status) == TUTTI_OK);
  CHECK(tutti_work_wait(work) == TUTTI_OK);
  CHECK(tutti_work_free(work) == TUTTI_OK);
  CHECK(status.count == 2);
  CHECK(same_bits(got.read(), {4, 5, 0}));
  const char* why_not = nullptr;
  CHECK(tutti_gpu_available(&why_not) == 1);
  CHECK(std::string{why_not}.empty());
  tutti_comm_free(comm);
}

TEST_CASE("messages") {
  if (!has_gpu()) return;
  on_ranks(2, [](Communicator& comm) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{100000}}) {
      const std::vector<float> sent = data_of<float>(7, count), before = data_of<float>(8, count + 3);
      const OnDevice<float> from{sent}, to{before};
      std::vector<float> expected = before;
      std::copy(sent.begin(), sent.end(), expected.begin());
      const int other = 1 - comm.rank();
      if (comm.rank() == 0) {
        comm.send(from.span(), other);
        comm.isend(from.span(), other).wait();
      } else {
        CHECK(comm.recv(to.span(), other).count == count);
        CHECK(same_bits(to.read(), expected));
        OnDevice<float> again{before};
        tutti::Work work = comm.irecv(again.span(), other);
        work.wait();
        CHECK(work.status().count == count);
        CHECK(same_bits(again.read(), expected));
      }
      const OnDevice<float> in{before};
      CHECK(comm.sendrecv(from.span(), other, in.span(), other).count == count);
      CHECK(same_bits(in.read(), expected));
    }
  });
}

TEST_CASE("a prepared call can be started again") {
  if (!has_gpu()) return;
  on_ranks(2, [](Communicator& comm) {
    OnDevice<float> data{{1, 2, 3}};
    tutti::Persistent call = comm.prepare().all_reduce(data.span(), tutti::premul_sum(0.5));
    CHECK_THROWS_WITH_AS((void)comm.prepare().all_reduce(data.span(), tutti::sum, {.algorithm = "rign"}),
                         doctest::Contains("ring"), tutti::Error);
    for (int turn = 0; turn < 50; ++turn) {
      data.write({float(turn), 2, 4});
      call.start();
      call.wait();
      CHECK(same_bits(data.read(), {float(turn), 2, 4}));
    }
  });
}

TEST_CASE("memory of the host is refused where device memory is meant, and the other way round") {
  if (!has_gpu()) return;
  on_ranks(2, [](Communicator& comm) {
    std::vector<float> host(10);
    CHECK_THROWS_WITH_AS(comm.all_reduce(gpu::span(host.data(), 10), tutti::sum),
                         doctest::Contains("without tutti::gpu::span(), or in C on_device = 0"), tutti::Error);
    OnDevice<float> device{host};
    CHECK_THROWS_WITH_AS(comm.all_reduce(std::span{device.span().data(), 10}, tutti::sum),
                         doctest::Contains("gpu::span(pointer, count), or in C on_device = 1"), tutti::Error);
    comm.barrier();
  });
}

TEST_CASE("the caller's current context is the same after a call") {
  if (!has_gpu()) return;
  on_ranks(2, [](Communicator& comm) {
    OnDevice<float> data{{1, 2, 3}};
    cuda::Context before = nullptr, after = nullptr;
    cuda::driver().cuCtxGetCurrent(&before);
    comm.all_reduce(data.span(), tutti::sum);
    comm.async().all_reduce(data.span(), tutti::sum).wait();
    cuda::driver().cuCtxGetCurrent(&after);
    CHECK(before == after);
  });
}

TEST_CASE("a stream that does not reach the call ends it at its deadline, and is let go") {
  if (!has_gpu()) return;
  std::atomic<int> failed{0};
  bool is_member = true;
  try {
    is_member = on_ranks(2, [&](Communicator& comm) {
      const cuda::OwnStream stream{context()};
      OnDevice<float> data{{1, 2, 3}};
      std::atomic<bool> release{false};
      if (!std::getenv("TUTTI_RANK")) return;  // see DeviceCopies::may_wait_on_device()
      if (comm.rank() == 1) {
        cuda::Commands commands{context(), stream.get()};
        commands.call([&] { release.wait(false); });
      }
      tutti::Work work = comm.async().all_reduce(data.span(), tutti::sum,
                                                 {.timeout = std::chrono::milliseconds{500}, .stream = stream.get()});
      try {
        work.wait();
      } catch (const tutti::Error& error) {
        INFO(std::string{error.what()});
        CHECK(std::string{error.what()}.find("all_reduce") != std::string::npos);
        ++failed;
      }
      release = true;
      release.notify_all();
      cuda::driver().cuStreamSynchronize(stream.get());
    });
  } catch (const tutti::Error&) {
  }
  if (std::getenv("TUTTI_RANK") && is_member) CHECK(failed == 1);
}

}  // namespace
