// Calls in memory of GPUs that all ranks can use, where they share it: there the tuning table decides. (What lies
// elsewhere is copied, or staged.)

#include <fmt/core.h>

#include <string_view>

#include "algorithms/select.h"
#include "cli/base/perform.h"
#include "cli/tune/calls.h"
#include "cli/tune/gpus.h"
#include "lib/api/communicator_state.h"
#include "lib/base/gpu/commands.h"
#include "lib/base/gpu/memory.h"
#include "lib/base/internals.h"
#include "tutti/error.h"
#include "tutti/gpu_memory.h"

namespace tutti::cli::tune {
namespace {

class DeviceCalls : public Calls {
 public:
  DeviceCalls(Communicator& comm, const WorkerOptions& options)
      : context_(gpu_of_rank(options.transport, comm.rank(), comm.size(), options.gpus)),
        current_(context_.get()),
        stream_(context_.get()),
        comm_(comm),
        staged_(comm.split(0)),
        input_(gpu::allocate<float>(comm_, elements(options))),
        output_(gpu::allocate<float>(comm_, elements(options))) {
    if (options.transport != links_kind && !input_.is_shared())
      throw Error{ErrorCode::unsupported,
                  fmt::format("the GPUs of these ranks cannot use each other's memory, so that there is no {}; "
                              "TUTTI_DEBUG=INFO says why",
                              options.transport)};
    clear(input_);
    clear(output_);
    // The first call of a communicator decides how all of its calls run.
    comm_.all_reduce(gpu::span(input_.data(), 1), sum, {.stream = stream_.get()});
    detail::Internals::state(staged_)->stage_all();
  }

  void take(const measure::Task& task) override {
    collective_ = task.call.collective;
    out_ = gpu::span(output_.data(), task.output);
    in_ = task.call == measure::all_reduce_in_place ? out_ : gpu::span(input_.data(), task.input);
  }

  void make(const char* algorithm) override {
    const bool staged = algorithm == algorithms::staged_word;
    perform(staged ? staged_ : comm_, collective_, in_, out_, sum, 0,
            {.algorithm = staged ? "" : algorithm, .stream = stream_.get()});
  }

 private:
  static std::size_t elements(const WorkerOptions& options) {
    return (options.most_bytes + page_of_parts) / sizeof(float);
  }

  /// What it holds would be added, and some of it could be slow to add on the host.
  void clear(const gpu::Array<float>& array) const {
    cuda::Commands commands{context_.get(), stream_.get()};
    commands.fill(cuda::address_of(array.data()), 0, array.size() * sizeof(float));
    cuda::driver().cuStreamSynchronize(stream_.get());
  }

  cuda::PrimaryContext context_;
  cuda::Current current_;
  cuda::OwnStream stream_;
  Communicator& comm_;
  Communicator staged_;
  gpu::Array<float> input_;
  gpu::Array<float> output_;
  Collective collective_{};
  gpu::Span<float> in_, out_;
};

}  // namespace

std::unique_ptr<Calls> make_device_calls(Communicator& comm, const WorkerOptions& options) {
  return std::make_unique<DeviceCalls>(comm, options);
}

}  // namespace tutti::cli::tune
