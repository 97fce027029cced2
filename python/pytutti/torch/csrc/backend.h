#pragma once

#include <torch/version.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "communicator.h"
#include "meeting.h"
#include "work.h"

/// `override`, from that version of PyTorch on; before, the function is there for nobody.
#define TUTTI_TORCH_IS(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))
#if TUTTI_TORCH_IS(2, 7)
#define TUTTI_OVERRIDE_2_7 override
#else
#define TUTTI_OVERRIDE_2_7
#endif
#if TUTTI_TORCH_IS(2, 8)
#define TUTTI_OVERRIDE_2_8 override
#else
#define TUTTI_OVERRIDE_2_8
#endif

namespace tutti_torch {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<std::vector<at::Tensor>>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// tutti as a backend of torch.distributed, for tensors of the CPU.
///
/// Threading: as the C interface. Destroying it, shutdown() and abort() may meet calls that are under way.
class TuttiBackend final : public c10d::Backend {
 public:
  /// Of the ranks that meet at `store`.
  TuttiBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout,
               std::string name, const Settings& settings);
  /// Of some ranks of `parent`, in that order.
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

  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) TUTTI_OVERRIDE_2_8;
  c10::intrusive_ptr<Options> getBackendOptions() TUTTI_OVERRIDE_2_8;
  void setTimeout(std::chrono::milliseconds timeout) TUTTI_OVERRIDE_2_8;

  void setSequenceNumberForGroup() override {}  // all ranks count from 0
  std::uint64_t getSequenceNumberForGroup() override { return calls_.load(std::memory_order_relaxed); }

  void shutdown() TUTTI_OVERRIDE_2_7;
  void abort() TUTTI_OVERRIDE_2_7;

  // ---- For Launch ----

  Communicator& communicator() { return *communicator_; }
  /// What a call is to be given: 0 is the communicator's own.
  std::int64_t timeout_ms(std::chrono::milliseconds wish) const;
  /// The number of a call, from 1; messages have that of the last collective.
  std::uint64_t count_call(c10d::OpType type);
  bool is_coalescing() const { return coalescing_.load(std::memory_order_relaxed); }
  /// Between startCoalescing() and endCoalescing() it remembers the Work; else it does nothing.
  void coalesce(const c10::intrusive_ptr<TuttiWork>& work);

 private:
  /// For monitoredBarrier(), made when it is called first: its messages do not meet the program's.
  Communicator& monitor();
  WorkPtr receive(Tensors& tensors, int from, int tag, c10d::OpType type, const char* title);

  const std::string name_;
  const std::chrono::milliseconds own_timeout_;  // the communicator's
  std::atomic<std::chrono::milliseconds> timeout_;
  std::unique_ptr<Communicator> communicator_;
  std::mutex monitor_mutex_;
  std::unique_ptr<Communicator> monitor_;  // null until it is needed
  std::atomic<std::uint32_t> monitored_{0};
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<bool> coalescing_{false};
  std::mutex coalesced_mutex_;
  std::vector<WorkPtr> coalesced_;
};

}  // namespace tutti_torch
