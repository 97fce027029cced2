#include "cli/bench/device_copy.h"

#include <fmt/core.h>

#include "tutti/error.h"

namespace tutti::cli::bench {
namespace {

cuda::Device device_of_rank(int local_rank) {
  if (!cuda::available())
    throw Error{ErrorCode::unsupported, fmt::format("bench: --on gpu needs a GPU: {}", cuda::why_not())};
  return local_rank % cuda::driver().devices;
}

cuda::DeviceMemory memory_in(cuda::Context context, std::size_t bytes) {
  const cuda::Current current{context};
  return cuda::DeviceMemory{bytes};
}

}  // namespace

DeviceCopy::DeviceCopy(const std::byte* host, std::size_t bytes, int local_rank)
    : host_(host),
      context_(device_of_rank(local_rank)),
      memory_(memory_in(context_.get(), bytes)),
      stream_(context_.get()) {}

std::byte* DeviceCopy::place_of(const std::byte* host) const {
  return reinterpret_cast<std::byte*>(memory_.address()) + (host - host_);
}

void DeviceCopy::copy(cuda::Address to, cuda::Address from, std::size_t bytes) const {
  cuda::Commands commands{context_.get(), stream_.get()};
  commands.copy(to, from, bytes);
  cuda::driver().cuStreamSynchronize(stream_.get());
}

void DeviceCopy::move(std::span<const std::byte> to, std::span<const std::byte> from) const {
  cuda::Commands commands{context_.get(), stream_.get()};
  commands.copy(place(to), place(from), from.size());
}

}  // namespace tutti::cli::bench
