#pragma once

#include <torch/version.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "coalesced_works.h"
#include "communicator.h"
#include "device.h"
#include "meeting.h"
#include "monitor.h"
#include "torch_version.h"

namespace tutti_torch {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<std::vector<at::Tensor>>;

/// torch.distributed.split_group() copies the options of a backend, which PyTorch's own class does not allow.
struct OwnOptions final : c10d::Backend::Options {
  using Options::Options;
};

/// tutti as a backend of torch.distributed, for tensors of the CPU and of GPUs.
///
/// Threading: as the C interface. Destroying it, shutdown() and abort() may meet calls that are under way.
class TuttiBackend final : public c10d::Backend {
 public:
  /// Its ranks meet by way of `store`.
  TuttiBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout,
               std::string name, const Settings& settings);
  /// Its ranks are some of `parent`'s, in that order.
  TuttiBackend(TuttiBackend& parent, const std::vector<int>& ranks, std::chrono::milliseconds timeout,
               std::string name);
  ~TuttiBackend() override;

  const std::string getBackendName() const override { return "tutti"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);  // since 2.14
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  void startCoalescing() override { coalesced_.begin(); }
  WorkPtr endCoalescing() override { return coalesced_.end(); }

  bool supportsSplitting() const override { return true; }
  void setSequenceNumberForGroup() override {}  // all ranks count from 0
  std::uint64_t getSequenceNumberForGroup() override { return calls_.load(std::memory_order_relaxed); }

  // Virtual functions that PyTorch 2.6 does not have all of, so that they are not marked `override`.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options);
  c10::intrusive_ptr<Options> getBackendOptions();
  void setTimeout(std::chrono::milliseconds timeout);
  std::exception_ptr await_streams() const noexcept { return communicator_.await_streams(timeout_.load()); }
  void shutdown();
  void abort();

  // ---- For Launch ----

  Communicator& communicator() { return communicator_; }
  /// What a call is to be given: 0 is the communicator's own.
  std::int64_t timeout_ms(std::chrono::milliseconds wish) const;
  /// The number of a call, from 1; messages have that of the last collective.
  std::uint64_t count_call(c10d::OpType type);
  CoalescedWorks& coalesced() { return coalesced_; }
  DeviceStreams& streams() { return streams_; }

 private:
  WorkPtr receive(Tensors& tensors, int from, int tag, c10d::OpType type, const char* title);

  const std::string name_;
  const std::chrono::milliseconds own_timeout_;  // the communicator's
  std::atomic<std::chrono::milliseconds> timeout_;
  Communicator communicator_;
  Monitor monitor_;
  std::atomic<std::uint64_t> calls_{0};
  CoalescedWorks coalesced_;
  DeviceStreams streams_;
};

}  // namespace tutti_torch
