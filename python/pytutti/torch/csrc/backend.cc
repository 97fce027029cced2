#include "backend.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "errors.h"
#include "interrupts.h"
#include "living.h"

namespace tutti_torch {
namespace {

/// In C 0 stands for the default.
std::chrono::milliseconds checked(std::chrono::milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0, "tutti: the timeout of a process group is ", timeout.count(),
                    " ms: give at least 1 ms");
  return timeout;
}

}  // namespace

TuttiBackend::TuttiBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                           std::chrono::milliseconds timeout, std::string name, const Settings& settings)
    : Backend(rank, size),
      name_(std::move(name)),
      own_timeout_(timeout),
      timeout_(checked(timeout)),
      communicator_(meet(*store, rank, size, timeout, settings), name_),
      monitor_(communicator_, size) {
  init();
}

TuttiBackend::TuttiBackend(TuttiBackend& parent, const std::vector<int>& ranks, std::chrono::milliseconds timeout,
                           std::string name)
    : Backend(static_cast<int>(std::find(ranks.begin(), ranks.end(), parent.getRank()) - ranks.begin()),
              static_cast<int>(ranks.size())),
      name_(std::move(name)),
      own_timeout_(parent.own_timeout_),
      timeout_(checked(timeout)),
      communicator_(sub_group(parent.communicator(), ranks), name_),
      monitor_(communicator_, static_cast<int>(ranks.size())) {
  init();
}

TuttiBackend::~TuttiBackend() { in_destructor(std::bind_front(&TuttiBackend::shutdown, this)); }

void TuttiBackend::shutdown() {
  const std::exception_ptr interrupt = await_streams();
  communicator_.close();
  monitor_.close();
  if (interrupt) std::rethrow_exception(interrupt);
}

c10::intrusive_ptr<c10d::Backend> TuttiBackend::split(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  if (std::find(ranks.begin(), ranks.end(), getRank()) == ranks.end()) return nullptr;
  const auto timeout = options ? options->timeout : timeout_.load();
  return Living::all().add(c10::make_intrusive<TuttiBackend>(*this, ranks, timeout, name_ + "/split"));
}

c10::intrusive_ptr<c10d::Backend::Options> TuttiBackend::getBackendOptions() {
  return c10::make_intrusive<OwnOptions>("tutti", timeout_.load());
}

void TuttiBackend::setTimeout(std::chrono::milliseconds timeout) { timeout_ = checked(timeout); }

void TuttiBackend::abort() { communicator_.abort("its process group \"" + name_ + "\" was aborted"); }

void TuttiBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  monitor_.barrier(getRank(), getSize(), options.timeout.count() < 0 ? timeout_.load() : options.timeout, wait_for_all);
}

// ---- For Launch --------------------------------------------------------------------------------------------------

std::int64_t TuttiBackend::timeout_ms(std::chrono::milliseconds wish) const {
  const auto timeout = wish.count() > 0 ? wish : timeout_.load(std::memory_order_relaxed);
  return timeout == own_timeout_ ? 0 : timeout.count();
}

std::uint64_t TuttiBackend::count_call(c10d::OpType type) {
  if (c10d::isP2POp(type)) return calls_.load(std::memory_order_relaxed);
  return calls_.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace tutti_torch
