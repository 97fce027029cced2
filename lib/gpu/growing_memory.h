#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lib/base/gpu/memory.h"

namespace tutti::detail {

/// Memory of a GPU that grows with the largest call. What was outgrown is kept, since a stream may still use it, and it
/// doubles in size, so that all together is less than twice the last. Where the driver can make it so, it is of the
/// kind that can be released while a stream waits.
class GrowingMemory {
 public:
  /// At least `bytes` bytes; 0: none. Needs a current context of the device, always the same one.
  cuda::Address get(cuda::Device device, std::size_t bytes);

 private:
  struct Piece {
    cuda::Address address;
    std::size_t size;
    std::shared_ptr<const void> owner;
  };
  std::vector<Piece> all_;
};

}  // namespace tutti::detail
