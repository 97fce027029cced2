#pragma once

#include <cstddef>
#include <vector>

#include "lib/base/gpu/context.h"
#include "lib/base/gpu/driver.h"
#include "lib/base/index.h"

namespace tutti::testing {

/// Memory as PyTorch's allocator makes it with `expandable_segments`: addresses that are reserved once, to which pieces
/// are mapped one by one. Buffers of the program may reach from one piece to the next.
class ExpandableSegment {
 public:
  ExpandableSegment(cuda::Device device, int pieces, cuda::HandleType shared_by) : handles_(at(pieces)) {
    cuda::AllocationProperties wanted{};
    wanted.type = cuda::allocation_pinned;
    wanted.requested_handle_types = shared_by;
    wanted.location = {cuda::location_device, device};
    const auto& call = cuda::driver();
    call.cuMemGetAllocationGranularity(&piece_, &wanted, cuda::granularity_minimum);
    call.cuMemAddressReserve(&address_, at(pieces) * piece_, 0, 0, 0);
    const cuda::AccessDescription access{wanted.location, cuda::access_read_write};
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      call.cuMemCreate(&handles_[i], piece_, &wanted, 0);
      call.cuMemMap(address_ + i * piece_, piece_, 0, handles_[i], 0);
      call.cuMemSetAccess(address_ + i * piece_, piece_, &access, 1);
    }
  }
  ExpandableSegment(const ExpandableSegment&) = delete;
  ExpandableSegment& operator=(const ExpandableSegment&) = delete;
  ~ExpandableSegment() {
    const auto& call = cuda::driver();
    (void)call.cuMemUnmap.result(address_, handles_.size() * piece_);
    (void)call.cuMemAddressFree.result(address_, handles_.size() * piece_);
    for (const cuda::AllocationHandle handle : handles_) (void)call.cuMemRelease.result(handle);
  }

  cuda::Address address() const { return address_; }
  std::size_t piece() const { return piece_; }

 private:
  cuda::Address address_ = 0;
  std::size_t piece_ = 0;
  std::vector<cuda::AllocationHandle> handles_;
};

}  // namespace tutti::testing
