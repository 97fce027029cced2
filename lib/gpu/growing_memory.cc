#include "lib/gpu/growing_memory.h"

#include <algorithm>
#include <utility>

namespace tutti::detail {

cuda::Address GrowingMemory::get(cuda::Device device, std::size_t bytes) {
  if (bytes == 0) return 0;
  if (all_.empty() || all_.back().size() < bytes)
    all_.push_back(cuda::SharedMemory::create(device, std::max(bytes, all_.empty() ? 0 : 2 * all_.back().size())));
  return all_.back().address();
}

void GrowingMemory::keep_for_ever() noexcept { new std::vector<cuda::SharedMemory>(std::move(all_)); }

}  // namespace tutti::detail
