#pragma once

#include <ATen/ATen.h>
#include <tutti/c.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "communicator.h"
#include "device.h"
#include "errors.h"
#include "tensors.h"
#include "work.h"

namespace tutti_torch {

class TuttiBackend;

/// Before PyTorch 2.8 options did not say whether the caller waits at once.
template <class Options>
bool is_asynchronous(const Options& options) {
  if constexpr (requires { options.asyncOp; }) {
    return options.asyncOp;
  } else {
    return true;
  }
}

/// What send and recv have instead of options.
struct MessageOptions {
  Lane lane;
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

template <class Options>
Lane lane_of(const Options& options) {
  if constexpr (requires { options.lane; }) {
    return options.lane;
  } else {
    return {};
  }
}

/// A call of a backend, from its tensors to its Work. A caller that waits at once gets the result without one: the
/// operation runs in its thread, and nothing is allocated.
///
/// With tensors of a GPU, a call that the caller waits for is in the order of the current stream. Any other is in that
/// of a stream of the backend, after what the current stream has now.
class Launch {
 public:
  /// `title`: what the profiler calls it. `inputs`: which the profiler records.
  template <class Options>
  Launch(TuttiBackend& backend, c10d::OpType type, const char* title, const Options& options,
         const std::vector<at::Tensor>& inputs)
      : Launch(backend, type, title, options.timeout, is_asynchronous(options), inputs, lane_of(options)) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch();

  tutti_comm* comm() const { return use_.get(); }
  std::int64_t timeout_ms() const { return timeout_ms_; }

  /// The memory of tensors that the call only reads, only writes, or updates; of a copy if it is not plain.
  const void* read(const at::Tensor& tensor);
  void* write(const at::Tensor& tensor);
  void* update(const at::Tensor& tensor);
  /// Memory of the host for what a call writes, also where the tensor is a device's: it is copied there when it has
  /// come. So a message that does not come holds up no stream, and the caller waits for one by wait().
  void* write_by_host(const at::Tensor& tensor);
  /// The same of several tensors, as one piece.
  const void* read_row(const std::vector<at::Tensor>& tensors, Memory memory);
  void* write_row(const std::vector<at::Tensor>& tensors, Memory memory);
  void* update_row(const std::vector<at::Tensor>& tensors);

  /// Does it: `function` calls the C interface with the options that it is given.
  template <class Function>
  void call(const Function& function, const tutti_op* op = nullptr) {
    if (asynchronous_) return start(function, op);
    const tutti_call_options options = options_with(op, nullptr);
    check(function(timeout_ms_ != 0 || op || stream_ ? &options : nullptr));
  }
  /// The same for what can only be started.
  template <class Function>
  void start(const Function& function, const tutti_op* op = nullptr) {
    tutti_work* work = nullptr;
    const tutti_call_options options = options_with(op, &work);
    if (stream_) place_in(current_stream(stream_->device())).block(*stream_);
    check(function(&options));
    started_.add(work);
  }

  /// After the last call. Null: the caller has waited. `results`: what a future is to hold.
  c10::intrusive_ptr<c10d::Work> finish(const std::vector<at::Tensor>& results);
  c10::intrusive_ptr<c10d::Work> finish(const std::vector<std::vector<at::Tensor>>& results);

 private:
  tutti_call_options options_with(const tutti_op* op, tutti_work** work) const {
    tutti_call_options options{};
    options.size = sizeof options;
    options.timeout_ms = timeout_ms_;
    options.op = op;
    options.work = work;
    options.on_device = stream_ ? 1 : 0;
    options.stream = stream_ ? handle_of(*stream_) : nullptr;
    return options;
  }
  Launch(TuttiBackend& backend, c10d::OpType type, const char* title, std::chrono::milliseconds timeout,
         bool asynchronous, const std::vector<at::Tensor>& inputs, const Lane& lane);
  /// The call uses the tensor, and so its device.
  void use(const at::Tensor& tensor);
  void use(const std::vector<at::Tensor>& tensors);
  void keep(const at::Tensor& tensor);
  void* written_row(Row row, const std::vector<at::Tensor>& tensors);
  c10::intrusive_ptr<c10d::Work> finish_work(TuttiWork::Lists results);

  TuttiBackend& backend_;
  const Communicator::Use use_;
  const at::AutoDispatchBelowADInplaceOrView no_gradients_;
  const bool asynchronous_;
  const std::int64_t timeout_ms_;  // 0: the communicator's
  const std::uint64_t sequence_number_;
  const Lane lane_;
  std::optional<c10::Device> device_;
  std::optional<c10::Stream> stream_;   // none: the memory is the host's
  c10::intrusive_ptr<TuttiWork> work_;  // null: nobody needs one
  Started started_;
};

}  // namespace tutti_torch
