#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "lib/base/gpu/commands.h"
#include "tests/gpu/host_memory.h"

namespace tutti::testing {

/// Keeps a stream until the host says that it may go on.
class Gate {
 public:
  Gate() { std::memset(memory_.data(), 0, memory_.size()); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  void close(cuda::Context context, cuda::Stream stream) const {
    cuda::Commands commands{context, stream};
    commands.wait(memory_.address(), 1);
    commands.flush();
  }
  void open() const { reinterpret_cast<std::atomic<std::uint64_t>*>(memory_.data())->store(1); }

 private:
  HostMemory memory_{4096};
};

}  // namespace tutti::testing
