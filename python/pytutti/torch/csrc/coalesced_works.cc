#include "coalesced_works.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "deadline.h"

namespace tutti_torch {
namespace {

/// Several as one: what a coalescing region returns.
class WorkOfSeveral final : public c10d::Work {
 public:
  explicit WorkOfSeveral(std::vector<WorkPtr> works) : works_(std::move(works)) {}

  bool isCompleted() override {
    return std::all_of(works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isSuccess(); });
  }
  std::exception_ptr exception() const override {
    for (const WorkPtr& work : works_)
      if (const std::exception_ptr failure = work->exception()) return failure;
    return nullptr;
  }
  bool wait(std::chrono::milliseconds timeout) override {
    const auto until = deadline_after(timeout);
    for (const WorkPtr& work : works_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      work->wait(timeout > kNoTimeout ? std::max(left, std::chrono::milliseconds{1}) : kNoTimeout);
    }
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> all;
    for (const WorkPtr& work : works_)
      for (at::Tensor& tensor : work->result()) all.push_back(std::move(tensor));
    return all;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures{
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get()))};
    for (const WorkPtr& work : works_) futures.push_back(work->getFuture());
    return c10::collectAll(futures);
  }

 private:
  const std::vector<WorkPtr> works_;
};

}  // namespace

void CoalescedWorks::begin() {
  std::vector<WorkPtr> left;  // by a region that an exception has ended, of which PyTorch does not tell
  const std::lock_guard lock{mutex_};
  left.swap(works_);
  open_ = true;
}

WorkPtr CoalescedWorks::end() {
  const std::lock_guard lock{mutex_};
  TORCH_CHECK(open_, "tutti: no coalescing region of this process group has begun");
  open_ = false;
  return c10::make_intrusive<WorkOfSeveral>(std::exchange(works_, {}));
}

void CoalescedWorks::add(const WorkPtr& work) {
  if (!is_open()) return;
  const std::lock_guard lock{mutex_};
  works_.push_back(work);
}

}  // namespace tutti_torch
