#include "lib/gpu/growing_memory.h"

#include <algorithm>
#include <utility>

namespace tutti::detail {

cuda::Address GrowingMemory::get(cuda::Device device, std::size_t bytes) {
  if (bytes == 0) return 0;
  if (!all_.empty() && all_.back().size >= bytes) return all_.back().address;
  const std::size_t wanted = std::max(bytes, all_.empty() ? 0 : 2 * all_.back().size);
  const auto keep = [&](auto memory) {
    auto owner = std::make_shared<const decltype(memory)>(std::move(memory));
    all_.push_back({owner->address(), owner->size(), owner});
  };
  if (cuda::facts_of(device).virtual_memory)
    keep(cuda::SharedMemory::create(device, wanted));
  else
    keep(cuda::DeviceMemory{wanted});
  return all_.back().address;
}

}  // namespace tutti::detail
