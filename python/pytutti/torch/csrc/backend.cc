#include "backend.h"

#include <Python.h>

#include <algorithm>
#include <utility>

#include "errors.h"

namespace tutti_torch {
namespace {

/// Lets other threads run Python while this one may wait; does nothing where it could not have Python anyway.
class WithoutPython {
 public:
  WithoutPython() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;
  ~WithoutPython() {
    if (state_) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* const state_;
};

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
    const auto until = std::chrono::steady_clock::now() + timeout;
    for (const WorkPtr& work : works_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
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

TuttiBackend::TuttiBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                           std::chrono::milliseconds timeout, std::string name, const Settings& settings)
    : Backend(rank, size),
      name_(std::move(name)),
      own_timeout_(timeout),
      timeout_(timeout),
      communicator_(std::make_unique<Communicator>(meet(*store, rank, size, timeout, settings), name_)) {
  init();
}

TuttiBackend::TuttiBackend(TuttiBackend& parent, const std::vector<int>& ranks, std::chrono::milliseconds timeout,
                           std::string name)
    : Backend(static_cast<int>(std::find(ranks.begin(), ranks.end(), parent.getRank()) - ranks.begin()),
              static_cast<int>(ranks.size())),
      name_(std::move(name)),
      own_timeout_(parent.own_timeout_),
      timeout_(timeout) {
  const Communicator::Use use{parent.communicator()};
  communicator_ = std::make_unique<Communicator>(sub_group(use.get(), ranks), name_);
  init();
}

TuttiBackend::~TuttiBackend() {
  const WithoutPython waiting;
  shutdown();
}

void TuttiBackend::shutdown() {
  communicator_->close();
  const std::lock_guard lock{monitor_mutex_};
  if (monitor_) monitor_->close();
}

c10::intrusive_ptr<c10d::Backend> TuttiBackend::split(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  if (std::find(ranks.begin(), ranks.end(), getRank()) == ranks.end()) return nullptr;
  const auto timeout = options ? options->timeout : timeout_.load();
  return c10::make_intrusive<TuttiBackend>(*this, ranks, timeout, name_ + "/split");
}

c10::intrusive_ptr<c10d::Backend::Options> TuttiBackend::getBackendOptions() {
  return c10::make_intrusive<Options>("tutti", timeout_.load());
}

void TuttiBackend::setTimeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

void TuttiBackend::abort() { communicator_->abort("its process group \"" + name_ + "\" was aborted"); }

// ---- For Launch --------------------------------------------------------------------------------------------------

std::int64_t TuttiBackend::timeout_ms(std::chrono::milliseconds wish) const {
  const auto timeout = wish.count() > 0 ? wish : timeout_.load(std::memory_order_relaxed);
  return timeout == own_timeout_ ? 0 : timeout.count();
}

std::uint64_t TuttiBackend::count_call(c10d::OpType type) {
  if (c10d::isP2POp(type)) return calls_.load(std::memory_order_relaxed);
  return calls_.fetch_add(1, std::memory_order_relaxed) + 1;
}

void TuttiBackend::startCoalescing() {
  const std::lock_guard lock{coalesced_mutex_};
  TORCH_CHECK(!coalescing_, "tutti: a coalescing region of this process group has begun already");
  coalescing_ = true;
}

WorkPtr TuttiBackend::endCoalescing() {
  const std::lock_guard lock{coalesced_mutex_};
  TORCH_CHECK(coalescing_, "tutti: no coalescing region of this process group has begun");
  coalescing_ = false;
  return c10::make_intrusive<WorkOfSeveral>(std::exchange(coalesced_, {}));
}

void TuttiBackend::coalesce(const c10::intrusive_ptr<TuttiWork>& work) {
  if (!is_coalescing()) return;
  const std::lock_guard lock{coalesced_mutex_};
  coalesced_.push_back(work);
}

}  // namespace tutti_torch
