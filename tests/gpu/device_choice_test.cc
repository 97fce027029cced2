// Which plans run on GPUs: those of the tuning table for the kind of GPUs that ranks have, unless somebody names one.
// Runs as processes (ranks.py), which have a GPU each, or share one.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lib/compute/gpu/image.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/on_device.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/scratch.h"

namespace {

using tutti::Communicator;
using tutti::testing::Folder;
using tutti::testing::has_gpu;
using tutti::testing::OnDevice;
using tutti::testing::Setting;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The elements of 1 on each of `comm`'s ranks, summed.
void sum_ones(Communicator& comm, std::size_t count, const char* algorithm = "") {
  const OnDevice<float> data{std::vector<float>(count, 1)};
  comm.all_reduce(data.span(), tutti::sum, {.algorithm = algorithm});
  CHECK(data.read() == std::vector<float>(count, static_cast<float>(comm.size())));
}

void pass_on(Communicator& comm) {
  const OnDevice<float> data{std::vector<float>(256, comm.rank() == 0 ? 7.0f : 0.0f)};
  comm.broadcast(data.span(), 0);
  CHECK(data.read() == std::vector<float>(256, 7));
}

void gather(Communicator& comm) {
  const auto n = static_cast<std::size_t>(comm.size());
  const OnDevice<float> data{std::vector<float>(1024, 3)}, all{std::vector<float>(n * 1024)};
  comm.all_gather(data.span(), all.span());
  CHECK(all.read() == std::vector<float>(n * 1024, 3));
}

void reduce(Communicator& comm) {
  const OnDevice<float> data{std::vector<float>(1 << 16, 1)}, sum{std::vector<float>(1 << 16)};
  comm.reduce(data.span(), sum.span(), tutti::sum, 0);
  if (comm.rank() == 0) CHECK(sum.read() == std::vector<float>(1 << 16, static_cast<float>(comm.size())));
}

/// In memory that others use, of which a table of ours says that it is staged.
void exchange(Communicator& comm) {
  const auto n = static_cast<std::size_t>(comm.size());
  const tutti::cuda::Current current{tutti::testing::context()};
  const auto all = tutti::gpu::allocate<float>(comm, 2 * n * 1024);
  CHECK(all.is_shared());
  comm.all_to_all(tutti::gpu::span(all.data(), n * 1024), tutti::gpu::span(all.data() + n * 1024, n * 1024));
}

TEST_CASE("choice: the tuning table has lines for each kind of GPUs, and what is named wins") {
  if (!has_gpu() || !std::getenv("TUTTI_RANK") || tutti::compute::gpu::image().empty()) return;
  int devices = 0;
  tutti::cuda::driver().cuDeviceGetCount(&devices);
  const bool own_gpus = devices > 1;
  const std::string kind = own_gpus ? "cuda_peers" : "cuda_leader";
  const Folder folder;
  std::ofstream{folder.name + "/table"} << "reduce cuda_peers * * tree:3\nreduce cuda_leader * * tree:3\n"
                                           "all_to_all cuda_peers * * staged\nall_to_all cuda_leader * * staged\n";
  {
    const Setting level{"TUTTI_DEBUG", "INFO"}, what{"TUTTI_DEBUG_SUBSYS", "TUNE"},
        file{"TUTTI_DEBUG_FILE", folder.name + "/log"}, table{"TUTTI_TUNING_FILE", folder.name + "/table"},
        algorithm{"TUTTI_ALGO", "all_gather:ring"};
    Communicator comm = tutti::connect();
    REQUIRE(comm.size() == 5);
    sum_ones(comm, 256);
    sum_ones(comm, 2 << 20);
    sum_ones(comm, 3 << 16, "ring");
    reduce(comm);
    gather(comm);
    exchange(comm);
    for (const char* mode : {"one-shot", "two-shot"}) {
      const Setting way{"TUTTI_GPU_MODE", mode};
      Communicator other = comm.split(0);
      sum_ones(other, std::string{mode} == "one-shot" ? 5 << 16 : 128);
      gather(other);
      exchange(other);
    }
    const Setting way{"TUTTI_GPU_MODE", "streams"};
    Communicator other = comm.split(0);
    pass_on(other);
  }
  std::ifstream log{folder.name + "/log"};
  const std::string said{std::istreambuf_iterator<char>{log}, {}};
  INFO(said);
  const std::string among = " among 5 ranks: ", by_kind = " over " + kind + among;
  if (own_gpus) {
    CHECK(has(said, "all_reduce of 1024 bytes" + by_kind + "direct\n"));
    CHECK(has(said, "all_reduce of 8388608 bytes" + by_kind + "direct_two_shot\n"));
  } else {
    CHECK(has(said, "all_reduce of 8388608 bytes" + by_kind + "direct\n"));
  }
  CHECK(has(said, "reduce of 262144 bytes" + by_kind + "tree:3\n"));
  CHECK(has(said, "all_reduce of 786432 bytes" + by_kind + "ring, as the call says\n"));
  CHECK(has(said, "all_reduce of 1310720 bytes" + by_kind + "direct, as the call says\n"));
  CHECK(has(said, "all_reduce of 512 bytes" + by_kind + "direct_two_shot, as the call says\n"));
  CHECK(has(said, "all_to_all of 20480 bytes over shm" + among));
  CHECK(has(said, "all_to_all of 20480 bytes" + by_kind + "direct, as the call says\n"));
  CHECK_FALSE(has(said, "all_to_all of 20480 bytes" + by_kind + "direct\n"));
  // TUTTI_ALGO.
  CHECK(has(said, "all_gather of 20480 bytes" + by_kind + "ring\n"));
  CHECK_FALSE(has(said, "all_gather of 20480 bytes" + by_kind + "direct"));
  // As over any other links, however many ranks are on the host.
  CHECK(has(said, "broadcast of 1024 bytes over cuda_ipc" + among + "tree:2\n"));
}

std::uint64_t commands_run() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto count =
      driver ? reinterpret_cast<decltype(&fake_cuda_commands_run)>(::dlsym(driver, "fake_cuda_commands_run")) : nullptr;
  return count ? count() : 0;
}

TEST_CASE("choice: kernels wait for each other only on request, and if no two ranks share a GPU") {
  if (!has_gpu() || !std::getenv("TUTTI_RANK") || tutti::compute::gpu::image().empty()) return;
  int devices = 0;
  tutti::cuda::driver().cuDeviceGetCount(&devices);
  Communicator comm = tutti::connect();
  if (devices < comm.size()) {
    const Setting kernel{"TUTTI_GPU_MODE", "kernel"};
    Communicator other = comm.split(0);
    CHECK_THROWS_WITH(sum_ones(other, 256), doctest::Contains("share a GPU, where a kernel that waits"));
    return;
  }
  const OnDevice<float> data{std::vector<float>(1 << 17, 1)};
  const auto commands_of = [&](Communicator& among, std::size_t count) {
    among.all_reduce(data.part(0, count), tutti::sum);
    const std::uint64_t before = commands_run();
    among.all_reduce(data.part(0, count), tutti::sum);
    return commands_run() - before;
  };
  if (commands_run() == 0) return;  // a real driver
  const auto others = static_cast<std::uint64_t>(comm.size()) - 1;
  CHECK(commands_of(comm, 1 << 6) > 5 * others);
  CHECK(commands_of(comm, 1 << 16) > 5 * others);
  const Setting kernel{"TUTTI_GPU_MODE", "kernel"};
  Communicator all = comm.split(0);
  // A copy of the input, the kernel, the event behind the call, and the function of the host that notices its end.
  CHECK(commands_of(all, 1 << 16) == 4);
  Communicator some = comm.split(comm.rank() == 0 ? 0 : 1);
  if (some.size() > 1) CHECK(commands_of(some, 1 << 16) == 4);
}

}  // namespace
