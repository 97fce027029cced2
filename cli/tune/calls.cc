// Calls in memory of the host.

#include "cli/tune/calls.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "cli/base/perform.h"
#include "tutti/error.h"

namespace tutti::cli::tune {
namespace {

/// Whole pages, of which only the requested part is touched.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : size_(bytes + page) {
    void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error{ErrorCode::system, "no memory for the buffers"};
    memory_ = static_cast<char*>(memory);
  }
  ~Memory() { ::munmap(memory_, size_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::span<float> elements(std::size_t count) {
    const std::size_t bytes = count * sizeof(float);
    if (bytes > touched_) std::memset(memory_ + touched_, 0, bytes - touched_);
    touched_ = std::max(touched_, bytes);
    return {reinterpret_cast<float*>(memory_), count};
  }

 private:
  static constexpr std::size_t page = 4096;
  std::size_t size_;
  std::size_t touched_ = 0;
  char* memory_ = nullptr;
};

class HostCalls : public Calls {
 public:
  HostCalls(Communicator& comm, std::size_t most_bytes)
      : comm_(comm), input_(most_bytes + page_of_parts), output_(most_bytes + page_of_parts) {}

  void take(const measure::Task& task) override {
    collective_ = task.call.collective;
    out_ = output_.elements(task.output);
    in_ = task.call == measure::all_reduce_in_place ? out_ : input_.elements(task.input);
  }

  void make(const char* algorithm) override {
    perform(comm_, collective_, in_, out_, sum, 0, {.algorithm = algorithm});
  }

 private:
  Communicator& comm_;
  Memory input_;
  Memory output_;
  Collective collective_{};
  std::span<float> in_, out_;
};

}  // namespace

std::unique_ptr<Calls> make_host_calls(Communicator& comm, const WorkerOptions& options) {
  return std::make_unique<HostCalls>(comm, options.most_bytes);
}

}  // namespace tutti::cli::tune
