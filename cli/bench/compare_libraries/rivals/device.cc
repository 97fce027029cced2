#include "cli/bench/compare_libraries/rivals/device.h"

#include <algorithm>

#include "cli/measure/rank_sync.h"

namespace tutti::cli::measure {

Device::Device(int rank) : context_(rank % cuda::driver().devices), current_(context_.get()), stream_(context_.get()) {}

void Device::copy(float* to, const float* from, std::size_t count) const {
  if (count == 0) return;
  cuda::Commands commands{context_.get(), stream_.get()};
  commands.copy(cuda::address_of(to), cuda::address_of(from), count * sizeof(float));
  wait();
}

double gpu_copy_rate() {
  constexpr std::size_t elements = std::size_t{64} << 20;  // more than any cache
  constexpr int most_copies = 10, rounds = 5;
  constexpr double longest_us = 20e3;
  const Device device{0};
  const DeviceElements from{elements}, to{elements};
  double best = 0;
  const double end = microseconds_now() + longest_us;
  for (int round = 0; round < rounds && (round == 0 || microseconds_now() < end); ++round) {
    const int copies = round == 0 ? 1 : most_copies;  // one shows whether more take too long
    const double begin = microseconds_now();
    {
      cuda::Context context = nullptr;
      cuda::driver().cuCtxGetCurrent(&context);
      cuda::Commands commands{context, device.stream()};
      for (int i = 0; i < copies; ++i)
        commands.copy(cuda::address_of(to.data()), cuda::address_of(from.data()), elements * sizeof(float));
    }
    device.wait();
    const double seconds = (microseconds_now() - begin) * 1e-6;
    best = std::max(best, 2.0 * copies * static_cast<double>(elements * sizeof(float)) / seconds * 1e-9);
  }
  return best;
}

}  // namespace tutti::cli::measure
