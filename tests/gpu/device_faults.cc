// A rank whose call on device memory fails, for device_faults_test.py: says how, lets its stream run empty, and exits
// with 0. TUTTI_INJECT, FAKE_CUDA_FAIL or the first argument says where it fails.

#include <tutti/gpu.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"

namespace cuda = tutti::cuda;

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const char* const algorithm = argc > 2 ? argv[2] : "";
  const bool asynchronous = argc > 3 && std::strcmp(argv[3], "start") == 0;
  tutti::Communicator comm = tutti::connect();
  const cuda::PrimaryContext primary{0};
  const cuda::Current current{primary.get()};
  constexpr std::size_t count = 3000;
  const cuda::DeviceMemory memory{count * sizeof(float)};
  const cuda::OwnStream stream{primary.get()};
  const auto data = tutti::gpu::span(reinterpret_cast<float*>(memory.address()), count);
  const tutti::CallOptions options{.algorithm = algorithm, .stream = stream.get()};

  try {
    if (comm.rank() == 1 && std::strcmp(what, "leave") == 0) return 0;
    if (comm.rank() == 1 && std::strcmp(what, "abort") == 0) comm.abort("rank 1 does not like it");
    for (int turn = 0; turn < 3; ++turn) {
      if (asynchronous)
        comm.async().all_reduce(data, tutti::sum, options).wait();
      else
        comm.all_reduce(data, tutti::sum, options);
      comm.barrier();
    }
    std::printf("rank %d: no error\n", comm.rank());
  } catch (const tutti::Error& error) {
    const auto begun = std::chrono::steady_clock::now();
    (void)cuda::driver().cuStreamSynchronize.result(stream.get());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    std::printf("rank %d: error of rank %d, code %d, stream empty after %.3f s: %s\n", comm.rank(), error.rank(),
                static_cast<int>(error.code()), took.count(), error.what());
  }
  std::fflush(stdout);
}
