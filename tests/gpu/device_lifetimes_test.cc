// What ends while calls on device memory are in their streams: communicators, and the last one of a job.

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/tutti.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/device_ranks.h"
#include "tests/gpu/gate.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/windows.h"
#include "tests/support/scratch.h"

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

}  // namespace
