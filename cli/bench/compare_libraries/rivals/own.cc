// Tutti's own side of the comparison, measured by the same code as the others.

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "cli/bench/compare_libraries/rivals/backend.h"
#include "cli/bench/compare_libraries/rivals/device.h"
#include "tutti/allocate.h"
#include "tutti/communicator.h"
#include "tutti/gpu_memory.h"
#include "tutti/version.h"

namespace tutti::cli::measure {
namespace {

class Own : public Backend {
 public:
  explicit Own(Joining how) : how_(std::move(how)) {
    if (how_.on_gpu) device_.emplace(comm_.rank());
  }

  int rank() const override { return comm_.rank(); }
  int ranks() const override { return comm_.size(); }

  Prepared prepare(const Task& task, float* input, float* output) override {
    const std::span in{input, task.input}, out{output, task.output};
    if (device_) return prepare_on_gpu(task, input, output);
    if (how_.setting != "allocated") return {call(task.call, in, out)};
    // All ranks must allocate the same amount, and a root needs more than the others.
    const std::size_t most = std::max({task.part * static_cast<std::size_t>(task.ranks), in.size(), out.size()});
    const auto shared = std::make_shared<SharedArray<float>>(allocate<float>(comm_, 2 * most));
    if (!shared->is_shared()) throw Error{ErrorCode::unsupported, "these ranks share no memory"};
    const std::span shared_in{shared->data(), in.size()}, shared_out{shared->data() + most, out.size()};
    return {call(task.call, shared_in, shared_out),
            [=] {
              std::ranges::copy(in, shared_in.begin());
              std::ranges::copy(out, shared_out.begin());
            },
            [=, kept = shared] { std::ranges::copy(shared_out, out.begin()); }};
  }

  void leave() override { comm_.barrier(); }

 private:
  /// "windows": in memory that all ranks can use, and else in ordinary memory of the GPU.
  Prepared prepare_on_gpu(const Task& task, float* input, float* output) {
    const std::size_t most = std::max({task.part * static_cast<std::size_t>(task.ranks), task.input, task.output});
    std::shared_ptr<const void> memory;
    float* begin = nullptr;
    if (how_.setting == "windows") {
      const auto shared = std::make_shared<gpu::Array<float>>(gpu::allocate<float>(comm_, 2 * most));
      if (!shared->is_shared()) throw Error{ErrorCode::unsupported, "the GPUs of these ranks share no memory"};
      begin = shared->data();
      memory = shared;
    } else {
      const auto ordinary = std::make_shared<DeviceElements>(2 * most);
      begin = ordinary->data();
      memory = ordinary;
    }
    float* const out = begin + most;
    return {call(task.call, gpu::span(begin, task.input), gpu::span(out, task.output)),
            [=, this] {
              device_->copy(begin, input, task.input);
              device_->copy(out, output, task.output);
            },
            [=, this, kept = memory] { device_->copy(output, out, task.output); }};
  }

  template <class Span>
  std::function<void()> call(MeasuredCall what, Span in, Span out) {
    Communicator& comm = comm_;
    if (what == send_recv)
      return [=, &comm, next = (rank() + 1) % ranks(), before = (rank() + ranks() - 1) % ranks()] {
        comm.sendrecv(in, next, out, before);
      };
    if (what == all_reduce_in_place) return [=, &comm] { comm.all_reduce(out, sum); };
    switch (what.collective) {
      case Collective::all_reduce:
        return [=, &comm] { comm.all_reduce(in, out, sum); };
      case Collective::broadcast:
        return [=, &comm] { comm.broadcast(out, 0); };
      case Collective::all_gather:
        return [=, &comm] { comm.all_gather(in, out); };
      case Collective::reduce_scatter:
        return [=, &comm] { comm.reduce_scatter(in, out, sum); };
      case Collective::all_to_all:
        return [=, &comm] { comm.all_to_all(in, out); };
      case Collective::reduce:
        return [=, &comm] { comm.reduce(in, out, sum, 0); };
      case Collective::gather:
        return [=, &comm] { comm.gather(in, out, 0); };
      case Collective::scatter:
        return [=, &comm] { comm.scatter(in, out, 0); };
      case Collective::scan:
        return [=, &comm] { comm.scan(in, out, sum); };
      case Collective::exclusive_scan:
        return [=, &comm] { comm.exclusive_scan(in, out, sum); };
      case Collective::barrier:
        return [&comm] { comm.barrier(); };
    }
    throw Error{ErrorCode::invalid_argument, "no such call"};
  }

  const Joining how_;
  std::optional<Device> device_;  ///< none: on memory of the host
  Communicator comm_ = connect();
};

}  // namespace

std::unique_ptr<Backend> join(const Joining& how) { return std::make_unique<Own>(how); }

/// With a hash of this program, which contains the library: rows of two builds are not those of one. Times of a build
/// for debugging are not those of the library that users get.
std::string version() {
  std::ostringstream program;
  program << std::ifstream{"/proc/self/exe", std::ios::binary}.rdbuf();
  std::ostringstream text;
  text << "tutti " << TUTTI_VERSION << ", build " << std::hex << std::hash<std::string>{}(program.str());
#ifndef NDEBUG
  text << " with assertions, which is slower than a release build";
#endif
  return text.str();
}

}  // namespace tutti::cli::measure
