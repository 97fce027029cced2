#include "tutti/run_threads.h"

#include <fmt/format.h>

#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/system_error_text.h"
#include "transport/memory/inproc.h"
#include "tutti/error.h"

namespace tutti {
namespace {

/// The ranks, and the first failure.
class Threads {
 public:
  Threads(int ranks, const std::function<void(Communicator&)>& body, const ConnectOptions& options)
      : body_(body),
        options_(options),
        hub_(std::make_shared<transport::InprocHub>(ranks)),
        communicators_(static_cast<std::size_t>(ranks)) {
    options_.size = ranks;
    options_.store = memory_store();
    options_.rendezvous.clear();
  }

  void run() {
    // None begins before all exist: without one of them the others would wait for it until their time is up.
    std::promise<bool> decision;
    const std::shared_future<bool> begins{decision.get_future()};
    std::vector<std::thread> threads;
    threads.reserve(communicators_.size());
    try {
      for (std::size_t rank = 0; rank < communicators_.size(); ++rank)
        threads.emplace_back([this, rank, begins] {
          if (begins.get()) run(rank);
        });
    } catch (const std::system_error& error) {
      cause_ = std::make_exception_ptr(
          Error{ErrorCode::system, fmt::format("run_threads: cannot start the thread of rank {} of {}: {}",
                                               threads.size(), communicators_.size(), refusal(error.code().value()))});
    } catch (...) {
      cause_ = std::current_exception();
    }
    decision.set_value(!cause_);
    for (std::thread& thread : threads) thread.join();
    if (cause_) std::rethrow_exception(cause_);
  }

 private:
  void run(std::size_t rank) noexcept {
    std::optional<Communicator> comm;
    try {
      ConnectOptions own = options_;
      own.rank = static_cast<int>(rank);
      comm.emplace(detail::join(own, hub_));
      join(rank, *comm);
      body_(*comm);
    } catch (...) {
      failed(rank, std::current_exception());
    }
    const std::lock_guard lock{mutex_};
    communicators_[rank] = nullptr;
  }

  void join(std::size_t rank, Communicator& comm) {
    const std::lock_guard lock{mutex_};
    communicators_[rank] = &comm;
    if (cause_) abort(&comm);
  }

  /// A failure that another rank has reported is not the cause, even if it is noticed first, and neither is the effect
  /// of our own abort().
  void failed(std::size_t rank, std::exception_ptr failure) noexcept {
    bool is_consequence = false;
    bool is_aborted = false;
    std::string what = "something that is no std::exception";
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      is_consequence = error.details().reported;
      is_aborted = error.code() == ErrorCode::aborted;
      what = error.what();
    } catch (const std::exception& error) {
      what = error.what();
    } catch (...) {
    }
    const std::lock_guard lock{mutex_};
    is_consequence |= is_aborted && !reason_.empty();
    if (!cause_ || (cause_is_consequence_ && !is_consequence)) {
      cause_ = std::move(failure);
      cause_is_consequence_ = is_consequence;
    }
    if (!reason_.empty()) return;
    reason_ = fmt::format("rank {} threw: {}", rank, what);
    for (Communicator* const comm : communicators_) abort(comm);
  }

  void abort(Communicator* comm) noexcept {
    try {
      if (comm) comm->abort(reason_);
    } catch (const Error&) {  // its rank has moved it elsewhere
    }
  }

  const std::function<void(Communicator&)>& body_;
  ConnectOptions options_;
  std::shared_ptr<transport::InprocHub> hub_;
  std::mutex mutex_;  // guards the members below
  std::vector<Communicator*> communicators_;
  std::exception_ptr cause_;
  bool cause_is_consequence_ = false;
  std::string reason_;  // of the first failure
};

}  // namespace

void tutti::run_threads(int ranks, const std::function<void(Communicator&)>& body, const ConnectOptions& options) {
  if (ranks < 1) throw Error{ErrorCode::invalid_argument, fmt::format("run_threads: {} ranks are too few", ranks)};
  if (!body) throw Error{ErrorCode::invalid_argument, "run_threads: the function is empty"};
  Threads{ranks, body, options}.run();
}

}  // namespace tutti
