// Messages between GPUs: how they end, their order, and what waits for them.

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/device_ranks.h"
#include "tests/gpu/gate.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/windows.h"

namespace {

using namespace std::chrono_literals;
namespace cuda = tutti::cuda;
using tutti::Communicator;
using tutti::ErrorCode;
using tutti::testing::code_of;
using tutti::testing::context;
using tutti::testing::Current;
using tutti::testing::Gate;
using tutti::testing::has_gpu;
using tutti::testing::is_thread;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::same_bits;

TEST_CASE("messages that do not fit, and are there before they are received") {
  if (!has_gpu()) return;
  on_ranks(2, [](Communicator& comm) {
    const cuda::OwnStream stream{context()};
    const std::vector<float> twenty(20, 1);
    const OnDevice<float> in{std::vector<float>(10, 5)};
    for (int turn = 0; turn < 50; ++turn) {
      if (comm.rank() == 0) comm.send(twenty, 1);
      comm.barrier();
      if (comm.rank() == 0) continue;
      CHECK(comm.probe(0).count == 20);
      std::string text;
      CHECK(code_of([&] { comm.irecv(in.span(), 0, {.stream = stream.get()}).wait(); }, text) == ErrorCode::truncated);
      INFO(text);
      cuda::driver().cuStreamSynchronize(stream.get());  // until then it may write to its output
    }
    comm.barrier();
  });
}

TEST_CASE("messages that are started after the communicator has failed") {
  if (!has_gpu()) return;
  on_ranks(2, [](Communicator& world) {
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(10)};
    for (int turn = 0; turn < 50; ++turn) {
      Communicator comm = world.split(0);
      comm.abort("the test wants it");
      for (int i = 0; i < 4; ++i) {
        std::string text;
        const auto sends = [&] { comm.isend(data.span(), 1 - comm.rank(), {.stream = stream.get()}).wait(); };
        CHECK(code_of(sends, text) == ErrorCode::aborted);
        INFO(text);
      }
    }
    world.barrier();
  });
}

TEST_CASE("messages that nobody has received yet keep neither the stream of their sender nor its thread") {
  if (!has_gpu()) return;
  constexpr std::size_t count = 200'000;  // too long to be kept at the receiver
  on_ranks(2, [&](Communicator& comm) {
    const cuda::OwnStream stream{context()};
    OnDevice<float> data{std::vector<float>(count, static_cast<float>(comm.rank()))};
    std::optional<tutti::Work> sent;
    if (comm.rank() == 0) {
      sent = comm.isend(data.span(), 1, {.timeout = 10s, .stream = stream.get()});
      cuda::driver().cuStreamSynchronize(stream.get());  // else until the deadline, which then ends all
      CHECK(!sent->done());
      data.write(std::vector<float>(count, 7));  // the message has been read
    }
    comm.barrier();
    if (comm.rank() == 1) {
      CHECK(comm.recv(data.span(), 0, {.stream = stream.get()}).count == count);
      CHECK(same_bits(data.read(), std::vector<float>(count, 0)));
    }
    if (sent) sent->wait();
    comm.barrier();
  });
}

TEST_CASE("messages without elements come in the order of their stream") {
  if (!has_gpu() || is_thread()) return;  // a sender's thread waits until its stream gets there
  on_ranks(2, [](Communicator& comm) {
    const Current current;
    const cuda::OwnStream stream{context()};
    const OnDevice<float> data{std::vector<float>(10)};
    if (comm.rank() == 0) {
      const Gate gate;
      gate.close(context(), stream.get());
      tutti::Work ten = comm.isend(data.span(), 1, {.stream = stream.get()});
      tutti::Work none = comm.isend(data.part(0, 0), 1, {.stream = stream.get()});
      tutti::Work three = comm.isend(data.part(0, 3), 1, {.stream = stream.get()});
      CHECK(!none.done());
      gate.open();
      for (tutti::Work* const work : {&ten, &none, &three}) work->wait();
    } else {
      CHECK(comm.recv(data.span(), 0).count == 10);
      CHECK(comm.recv(data.part(0, 0), 0).count == 0);
      CHECK(comm.recv(data.span(), 0).count == 3);
    }
    comm.barrier();
  });
}

TEST_CASE("messages and parts without elements: another stream can come after them") {
  if (!has_gpu()) return;
  on_ranks(2, [](Communicator& world) {
    Communicator comm = world.split(0);
    const cuda::OwnStream stream{context()}, other{context()};
    const OnDevice<float> data{std::vector<float>(50, 1)}, out{std::vector<float>(50)};
    comm.all_reduce(data.span(), tutti::sum);  // agrees how calls run
    const std::vector<std::size_t> counts{0, 50};
    const std::size_t own = counts[static_cast<std::size_t>(comm.rank())];
    std::vector<float> on_host(50);
    if (comm.rank() == 1) world.barrier();
    tutti::Work first = comm.async().all_reduce(on_host, tutti::sum);
    tutti::Work part = comm.async().gather_v(data.part(0, own), out.part(0, own), counts, 1, {.stream = stream.get()});
    std::optional<tutti::Work> message;
    if (comm.rank() == 1) message = comm.isend(data.part(0, 0), 0, {.stream = stream.get()});
    if (comm.rank() == 0 && !is_thread()) message = comm.irecv(out.part(0, 0), 1, {.stream = stream.get()});
    if (comm.rank() == 0) {
      CHECK(!first.done());  // nor is what comes after it
      CHECK_NOTHROW(part.wait_on(other.get()));
      if (message) CHECK_NOTHROW(message->wait_on(other.get()));
      world.barrier();
    }
    first.wait();
    part.wait();
    if (message) message->wait();
    if (comm.rank() == 0 && is_thread()) CHECK(comm.recv(out.part(0, 0), 1).count == 0);
    cuda::driver().cuStreamSynchronize(other.get());
    world.barrier();
  });
}

}  // namespace
