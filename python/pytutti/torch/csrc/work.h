#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <tutti/c.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "device.h"
#include "stream_waits.h"

namespace tutti_torch {

/// Operations that were started, with the memory that they use.
class Started {
 public:
  Started() = default;
  Started(Started&& other) noexcept = default;
  Started& operator=(Started&& other) noexcept;
  ~Started();

  void add(tutti_work* work) { works_.push_back(work); }
  void keep(at::Tensor memory) { memory_.push_back(std::move(memory)); }
  /// The operations are in this stream.
  void keep(std::shared_ptr<const LaneStream> lane) { lane_ = std::move(lane); }
  /// Once all is done, `from` is to be copied to `to`.
  void copy_later(at::Tensor to, at::Tensor from) { copies_.emplace_back(std::move(to), std::move(from)); }

  bool empty() const { return works_.empty(); }
  const std::vector<tutti_work*>& works() const { return works_; }
  bool done() const;
  bool failed() const;
  void wait() const;
  /// False: not all are done by then.
  bool wait_for(std::chrono::milliseconds limit) const;
  /// For those who know that all is done: copies, lets go of memory and stream, and returns the first failure.
  std::exception_ptr end();
  void copy();
  /// With memory of a device: lets the stream of the operations copy after them. Returns where all is done.
  c10::Event finish_on(const c10::Stream& stream);
  /// With memory of a device, after a failure: nothing is copied, and the memory stays until the stream has done what
  /// it was given.
  void leave_to(const c10::Stream& stream) noexcept;
  /// Copies are made on that stream, after what the current one has now, and are done when copy() returns.
  void copy_on(const c10::Stream& stream);
  /// Its source, after a receive.
  int source() const;

 private:
  std::vector<tutti_work*> works_;
  std::vector<at::Tensor> memory_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
  std::shared_ptr<const LaneStream> lane_;
  std::optional<c10::Stream> copying_;
  std::optional<c10::Event> copies_after_;
};

/// Lets them end though nobody has them.
void abandon(Started started);

/// Where operations on memory of a device are done in their stream.
struct StreamPlace {
  c10::Event event;
  bool is_captured;                    ///< into a graph: then there is nothing to wait for
  std::shared_ptr<StreamWaits> waits;  ///< of the group
};

/// A Work of PyTorch's. It ends by itself: its future is completed though nobody waits, and if it is dropped, its
/// tensors live until its operations are done.
class TuttiWork final : public c10d::Work {
 public:
  using Lists = std::vector<std::vector<at::Tensor>>;

  /// `title`: what the profiler calls it; null: it does not run.
  TuttiWork(int rank, c10d::OpType type, const char* title, const std::optional<std::vector<at::Tensor>>& inputs)
      : Work(rank, type, title, inputs) {}
  ~TuttiWork() override;

  /// Before anybody else has it: what it stands for, and what its future is to hold. With `done`, wait() lets the
  /// current stream wait, and not the caller.
  void begin(Started started, Lists results, std::uint64_t sequence_number, std::optional<StreamPlace> done);
  /// The same for what is done already.
  void begin_done(Lists results, std::uint64_t sequence_number);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override { wait(); }
  void abort() override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_number_; }

 private:
  /// Its operations are done: makes that known. One thread does it, and others wait until it has.
  void end();
  /// Waits until end() has got that far, on whichever thread.
  void until_completed();
  /// Lets end() be called though nobody waits. `mutex_` is not held.
  void end_by_itself();
  void complete(c10::ivalue::Future& future) const;

  Started started_;
  Lists results_;
  std::uint64_t sequence_number_ = 0;
  std::optional<StreamPlace> done_;
  std::atomic<bool> ends_{false};                       // end() has been called
  bool ends_by_itself_ = false;                         // under mutex_
  c10::intrusive_ptr<c10::ivalue::Future> future_;      // the same
  c10::intrusive_ptr<c10::ivalue::Future> unfinished_;  // the same; until somebody completes it
};

}  // namespace tutti_torch
