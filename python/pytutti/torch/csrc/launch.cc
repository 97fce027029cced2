#include "launch.h"

#include <ATen/record_function.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "backend.h"

namespace tutti_torch {
namespace {

/// PyTorch remembers the Work of every call, to wait for it later. Before 2.8 it also waits for that of a call that has
/// waited by itself.
bool needs_work() {
#if TUTTI_TORCH_IS(2, 8)
  return c10d::allow_inflight_collective_as_graph_input();
#else
  return true;
#endif
}

}  // namespace

Launch::Launch(TuttiBackend& backend, c10d::OpType type, const char* title, std::chrono::milliseconds timeout,
               bool asynchronous, const std::vector<at::Tensor>& inputs, const Lane& lane)
    : backend_(backend),
      use_(backend.communicator()),
      asynchronous_(asynchronous || backend.coalesced().is_open()),
      timeout_ms_(backend.timeout_ms(timeout)),
      sequence_number_(backend.count_call(type)),
      lane_(lane) {
  const bool profiled = at::hasCallbacks();
  if (!asynchronous_ && !profiled && !needs_work()) return;
  work_ = profiled ? c10::make_intrusive<TuttiWork>(backend.getRank(), type, title, inputs)
                   : c10::make_intrusive<TuttiWork>(backend.getRank(), type, nullptr, std::nullopt);
}

Launch::~Launch() {
  if (stream_ && asynchronous_) started_.leave_to(*stream_);  // a call has failed, and the stream may still be in it
  if (!started_.empty()) abandon(std::move(started_));        // a later call of several has failed
}

void Launch::use(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(!device_ || *device_ == tensor.device(), "tutti: a call got tensors on ", *device_, " and on ",
                    tensor.device(), ": they must be on one device");
  if (device_) return;
  device_ = tensor.device();
  if (device_->is_cpu()) return;
  backend_.streams().use(*device_);
  if (!asynchronous_) {
    stream_ = current_stream(*device_);
    return;
  }
  auto lane = backend_.streams().of(*device_, lane_);
  stream_ = lane->stream();
  started_.keep(std::move(lane));
}

void Launch::use(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) use(tensor);
}

void Launch::keep(const at::Tensor& tensor) {
  if (asynchronous_) started_.keep(tensor);
}

const void* Launch::read(const at::Tensor& tensor) {
  use(tensor);
  if (is_plain(tensor)) {
    keep(tensor);
    return tensor.const_data_ptr();
  }
  at::Tensor copy = plain(tensor);
  const void* const data = copy.const_data_ptr();
  started_.keep(std::move(copy));
  return data;
}

void* Launch::write(const at::Tensor& tensor) {
  use(tensor);
  if (is_plain(tensor)) {
    keep(tensor);
    return tensor.mutable_data_ptr();
  }
  const at::Tensor result = copyable(tensor);
  at::Tensor copy = at::empty(result.sizes(), result.options().memory_format(at::MemoryFormat::Contiguous));
  void* const data = copy.mutable_data_ptr();
  started_.copy_later(result, std::move(copy));
  return data;
}

void* Launch::update(const at::Tensor& tensor) {
  use(tensor);
  if (is_plain(tensor)) {
    keep(tensor);
    return tensor.mutable_data_ptr();
  }
  at::Tensor copy = plain(tensor);
  void* const data = copy.mutable_data_ptr();
  started_.copy_later(tensor, std::move(copy));
  return data;
}

void* Launch::write_by_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return write(tensor);
  backend_.streams().use(tensor.device());
  const at::Tensor result = copyable(tensor);
  at::Tensor host = at::empty(result.sizes(), result.options().device(at::kCPU));
  void* const data = host.mutable_data_ptr();
  started_.copy_later(result, std::move(host));
  started_.copy_on(backend_.streams().of(tensor.device(), {Lane::Kind::arrivals})->stream());
  return data;
}

const void* Launch::read_row(const std::vector<at::Tensor>& tensors, Memory memory) {
  use(tensors);
  at::Tensor row = filled_row(tensors, memory).memory;
  const void* const data = row.const_data_ptr();
  started_.keep(std::move(row));
  return data;
}

void* Launch::write_row(const std::vector<at::Tensor>& tensors, Memory memory) {
  return written_row(empty_row(tensors, memory), tensors);
}

void* Launch::update_row(const std::vector<at::Tensor>& tensors) {
  return written_row(filled_row(tensors, Memory::own_if_possible), tensors);
}

void* Launch::written_row(Row row, const std::vector<at::Tensor>& tensors) {
  use(tensors);
  void* const data = row.memory.mutable_data_ptr();
  std::int64_t begin = 0;
  if (row.is_copy)
    for (const at::Tensor& tensor : tensors) {
      started_.copy_later(copyable(tensor), row.memory.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
  started_.keep(std::move(row.memory));
  return data;
}

c10::intrusive_ptr<c10d::Work> Launch::finish(const std::vector<at::Tensor>& results) {
  if (work_) return finish_work({results});
  started_.copy();
  return nullptr;
}

c10::intrusive_ptr<c10d::Work> Launch::finish(const std::vector<std::vector<at::Tensor>>& results) {
  if (work_) return finish_work(results);
  started_.copy();
  return nullptr;
}

c10::intrusive_ptr<c10d::Work> Launch::finish_work(TuttiWork::Lists results) {
  if (asynchronous_) {
    std::optional<StreamPlace> done;
    if (stream_) done = {started_.finish_on(*stream_), is_captured(*stream_), use_.stream_waits()};
    work_->begin(std::exchange(started_, {}), std::move(results), sequence_number_, std::move(done));
    backend_.coalesced().add(work_);
  } else {
    started_.copy();
    work_->begin_done(std::move(results), sequence_number_);
  }
  return work_;
}

}  // namespace tutti_torch
