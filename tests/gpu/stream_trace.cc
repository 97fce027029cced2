// A rank whose calls on streams are traced, for stream_trace_test.py:
//
//     stream_trace ALGORITHM ELEMENTS CALLS [LATE_RANK]
//
// makes a call of all_reduce, and then CALLS more, one after the other. The late rank enqueues the last one 200 ms
// after the others. Prints "34 commands, 0 timed events": what its streams ran in all calls but a first one, and what
// the process made.

#include <dlfcn.h>
#include <tutti/gpu.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/gpu/commands.h"
#include "tests/gpu/on_device.h"

namespace {

std::uint64_t count(const char* what) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto function = driver ? reinterpret_cast<std::uint64_t (*)()>(::dlsym(driver, what)) : nullptr;
  return function ? function() : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string algorithm = argc > 1 ? argv[1] : "ring";
  const auto elements = static_cast<std::size_t>(std::atol(argc > 2 ? argv[2] : "1000"));
  const int calls = std::atoi(argc > 3 ? argv[3] : "3");
  const int late = argc > 4 ? std::atoi(argv[4]) : -1;
  auto comm = tutti::connect();
  const tutti::cuda::OwnStream stream{tutti::testing::context()};
  const tutti::testing::OnDevice<float> in{std::vector<float>(elements, static_cast<float>(comm.rank()))};
  const tutti::testing::OnDevice<float> out{std::vector<float>(elements)};
  const tutti::CallOptions options{.algorithm = algorithm, .stream = stream.get()};
  const auto call = [&] { comm.async().all_reduce(in.span(), out.span(), tutti::sum, options).wait(); };
  call();  // sets up all there is
  comm.barrier();
  const std::uint64_t before = count("fake_cuda_commands_run");
  for (int i = 1; i <= calls; ++i) {
    if (i == calls && comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds{200});
    call();
  }
  std::printf("%d commands, %d timed events\n", static_cast<int>(count("fake_cuda_commands_run") - before),
              static_cast<int>(count("fake_cuda_timed_events")));
  const float expected = static_cast<float>(comm.size() * (comm.size() - 1)) / 2;
  return out.read() == std::vector<float>(elements, expected) ? 0 : 1;
}
