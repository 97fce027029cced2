#include "work.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "communicator.h"
#include "completions.h"
#include "deadline.h"
#include "errors.h"
#include "interrupts.h"

namespace tutti_torch {

// A thread that waits delays others that call and wait, so it leaves what takes long to the library's helper.
constexpr std::chrono::milliseconds driven_at_most{10};

// ---- Operations --------------------------------------------------------------------------------------------------

Started& Started::operator=(Started&& other) noexcept {
  works_.swap(other.works_);
  memory_.swap(other.memory_);
  copies_.swap(other.copies_);
  lane_.swap(other.lane_);
  copying_.swap(other.copying_);
  copies_after_.swap(other.copies_after_);
  return *this;
}

Started::~Started() {
  for (tutti_work* const work : works_) tutti_work_free(work);
}

bool Started::done() const {
  return std::all_of(works_.begin(), works_.end(), [](tutti_work* work) {
    std::int32_t done = 0;
    return tutti_work_test(work, &done) != TUTTI_OK || done != 0;
  });
}

bool Started::failed() const {
  return std::any_of(works_.begin(), works_.end(), [](tutti_work* work) {
    std::int32_t done = 0;
    return tutti_work_test(work, &done) != TUTTI_OK;
  });
}

void Started::wait() const {
  for (tutti_work* const work : works_) tutti_work_wait(work);  // end() asks what became of it
}

bool Started::wait_for(std::chrono::milliseconds limit) const {
  const auto until = deadline_after(limit);
  for (tutti_work* const work : works_) {
    std::int32_t done = 0;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (tutti_work_wait_for(work, std::max<std::int64_t>(left, 0), &done) == TUTTI_OK && done == 0) return false;
  }
  return true;
}

std::exception_ptr Started::end() {
  std::exception_ptr failure;
  for (tutti_work* const work : works_)
    if (const tutti_result result = tutti_work_wait(work); result != TUTTI_OK && !failure) failure = failure_of(result);
  try {
    if (!failure) copy();
  } catch (...) {
    failure = std::current_exception();
  }
  copies_.clear();
  memory_.clear();
  lane_.reset();
  return failure;
}

void Started::copy() {
  if (copies_.empty()) return;
  const at::AutoDispatchBelowADInplaceOrView no_gradients;
  const c10::OptionalStreamGuard guard{copying_};
  if (copying_) copies_after_->block(*copying_);
  for (auto& [to, from] : copies_) to.copy_(from);
  // PyTorch waits for what it copies from the host, but not for a kernel that then puts the elements into their places.
  if (copying_) place_in(*copying_).synchronize();
}

void Started::copy_on(const c10::Stream& stream) {
  copying_ = stream;
  copies_after_ = place_in(current_stream(stream.device()));
}

c10::Event Started::finish_on(const c10::Stream& stream) {
  {
    const c10::StreamGuard guard{stream};
    copy();
  }
  leave_to(stream);
  return place_in(stream);
}

/// Those that stay are held, too, until the operations are done.
void Started::leave_to(const c10::Stream& stream) noexcept {
  for (auto& [to, from] : copies_) keep(std::move(to)), keep(std::move(from));
  copies_.clear();
  for (const at::Tensor& tensor : memory_) try {
      used_on(stream, tensor);
    } catch (const std::exception&) {
      // The device has failed: nothing uses memory any more.
    }
}

int Started::source() const {
  tutti_status status{.source = -1, .tag = -1, .count = 0};
  if (!works_.empty()) check(tutti_work_status(works_.front(), &status));
  return status.source;
}

void abandon(Started started) {
  const auto rest = std::make_shared<Started>(std::move(started));
  Completions::all().when_done(rest->works(), [rest] { rest->end(); });
}

// ---- Their Work --------------------------------------------------------------------------------------------------

TuttiWork::~TuttiWork() {
  if (!ends_ && !started_.empty()) abandon(std::move(started_));
}

void TuttiWork::begin(Started started, Lists results, std::uint64_t sequence_number, std::optional<StreamPlace> done) {
  started_ = std::move(started);
  results_ = std::move(results);
  sequence_number_ = sequence_number;
  done_ = std::move(done);
  if (recordFunctionEndCallback_) end_by_itself();
}

void TuttiWork::begin_done(Lists results, std::uint64_t sequence_number) {
  results_ = std::move(results);
  sequence_number_ = sequence_number;
  end();
}

bool TuttiWork::isCompleted() {
  const auto is_through = [this] {
    return started_.done() && (!done_ || done_->is_captured || started_.failed() || passed(done_->event));
  };
  if (!ends_.load(std::memory_order_acquire) && is_through()) end();
  const std::lock_guard lock{mutex_};
  return completed_;
}

bool TuttiWork::wait(std::chrono::milliseconds timeout) {
  if (done_ && (timeout <= kNoTimeout || done_->is_captured)) {
    const c10::Stream current = current_stream(done_->event.device());
    if (!done_->is_captured || is_captured(current)) done_->event.block(current);
    if (!isCompleted()) {
      done_->waits->add(started_.works());
      return true;
    }
  }
  if (!ends_.load(std::memory_order_acquire)) {
    if (timeout <= kNoTimeout) {
      started_.wait();
    } else if (!started_.wait_for(timeout)) {
      rethrow_interrupt();
      fail_with(c10::str("tutti: ", c10d::opTypeToString(opType_), " on rank ", rank_, " is not done after ",
                         timeout.count(), " ms of wait(); it goes on"));
    }
    end();
    rethrow_interrupt();  // others who wait learn that the operation was aborted
  }
  until_completed();
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void TuttiWork::until_completed() {
  {
    std::unique_lock lock{mutex_};
    cv_.wait(lock, [this] { return completed_; });
  }
  stay_if_process_ends();
}

void TuttiWork::abort() {
  TORCH_CHECK(false, "tutti: one operation cannot be aborted: call abort() of its process group");
}

int TuttiWork::sourceRank() const {
  started_.wait();  // with memory of a device wait() has not
  return started_.source();
}

std::vector<at::Tensor> TuttiWork::result() {
  if (done_) {                       // wait() has not, for that
    const WithoutPython others_run;  // such as a thread that ends it
    started_.wait();
    end();
    rethrow_interrupt();
    until_completed();
  }
  TORCH_CHECK(isCompleted(), "tutti: result() of an operation that is not done: call wait() first");
  TORCH_CHECK(results_.size() <= 1, "tutti: this operation has lists of results: use get_future()");
  return results_.empty() ? std::vector<at::Tensor>{} : results_.front();
}

c10::intrusive_ptr<c10::ivalue::Future> TuttiWork::getFuture() {
  if (done_ && done_->is_captured) wait();  // callers of the future have no other order among streams
  bool completed = false;
  {
    const std::lock_guard lock{mutex_};
    if (future_) return future_;
    const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
    // Without devices: what it holds is there, on the device too, when it is completed.
    future_ = c10::make_intrusive<c10::ivalue::Future>(results_.size() > 1 ? c10::ListType::create(list) : list);
    completed = completed_;
    if (!completed) unfinished_ = future_;
  }
  if (completed)
    complete(*future_);
  else
    end_by_itself();
  return future_;
}

void TuttiWork::end_by_itself() {
  {
    const std::lock_guard lock{mutex_};
    if (completed_ || ends_by_itself_) return;
    ends_by_itself_ = true;
  }
  auto self = c10::intrusive_ptr<TuttiWork>::unsafe_reclaim_from_nonowning(this);
  Completions::all().when_done(started_.works(), [self] { self->end(); });
  Completions::all().drive([self] {
    if (self->started_.wait_for(driven_at_most)) self->end();
  });
}

void TuttiWork::end() {
  if (ends_.exchange(true)) return;
  std::exception_ptr failure = started_.end();
  try {
    if (done_ && !done_->is_captured && !failure) done_->event.synchronize();  // what is copied after the operations
  } catch (...) {
    failure = std::current_exception();
  }
  finish(failure);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock{mutex_};
    future.swap(unfinished_);
  }
  if (future) complete(*future);
}

void TuttiWork::complete(c10::ivalue::Future& future) const {
  if (exception_) {
    future.setError(exception_);
  } else if (results_.size() > 1) {
    future.markCompleted(c10::IValue(results_));
  } else {
    future.markCompleted(c10::IValue(results_.empty() ? std::vector<at::Tensor>{} : results_.front()));
  }
}

}  // namespace tutti_torch
