#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/base/fork_mark.h"
#include "lib/engine/channels.h"
#include "lib/engine/deadlines.h"
#include "lib/engine/engine_interfaces.h"
#include "lib/engine/fifo.h"
#include "lib/engine/helper.h"
#include "lib/engine/ownership.h"
#include "lib/engine/pending.h"
#include "lib/engine/step_queue.h"
#include "lib/observe/trace/recorder.h"
#include "transport/reactor.h"
#include "transport/transport.h"

namespace tutti::detail {

/// How long an idle driver polls before it sleeps. With more ranks than cores that is hardly at all, since the peer
/// needs the core.
struct Patience {
  int spins;   ///< passes with a pause instruction
  int yields;  ///< further passes with sched_yield
};

/// Runs every plan, on every transport of one rank.
///
/// One thread at a time owns the engine (Ownership): a caller that waits, or the helper thread (Helper) while
/// asynchronous work is running and no caller waits. Other threads leave their work for the owner, and sleep until it
/// is done or the owner leaves. Everything else here belongs to the owner, so there is no other lock.
class Engine final {
 public:
  explicit Engine(Patience patience);
  ~Engine();

  transport::Reactor& reactor() { return reactor_; }
  /// During set-up only.
  void add(std::unique_ptr<transport::Transport> transport);
  void set_recorder(std::shared_ptr<trace::Recorder> recorder) { recorder_ = std::move(recorder); }
  void set_patience(Patience first, Patience usual) { patience_ = first, usual_patience_ = usual; }

  /// Throws Error{invalid_argument} in a child of fork(), where nothing that waits or sends may be called, and no
  /// object of the parent may be destroyed.
  void require_own_process() const {
    if (!mark_.is_here()) [[unlikely]]
      throw error_in_child();
  }
  Error error_in_child() const;
  bool is_own_process() const noexcept { return mark_.is_here(); }
  /// Whether this thread owns the engine, and is in a function of the program's that it has called.
  bool is_owned_here() const noexcept { return ownership_.is_owned_here(); }
  /// Throws Error{invalid_argument} then, for calls that would wait for that function to return.
  void require_other_owner() const;

  /// Must be called before the first asynchronous operation is submitted. Throws Error{system}.
  void get_helper() { helper_.start(); }
  /// Starts an operation and keeps a reference until it is finished.
  void submit(Pending& pending);
  /// For inline calls. True: this thread owns the engine until it calls disown() or submit_and_disown(). False: another
  /// thread owns it, or has left work.
  bool try_own() noexcept { return ownership_.try_own(); }
  /// Whether asynchronous operations may need the engine while a caller tries an inline call.
  bool has_asynchronous_work() const noexcept { return helper_.seems_to_have_work(); }
  /// Whether other threads have left something for the owner.
  const std::atomic<bool>& mail_flag() const noexcept { return ownership_.mail_flag(); }
  void disown() noexcept {
    const bool others_wait = helper_.has_work() || ownership_.others_wait();
    if (!others_wait && ownership_.try_leave()) [[likely]]
      return;
    disown_to(others_wait);
  }
  /// Starts an operation, as submit() does.
  void submit_owned(Pending& pending);
  void submit_and_disown(Pending& pending);
  /// Drives, or sleeps while another thread drives, until `pending` is done. False: `until` came first.
  bool wait(const Pending& pending, Clock::time_point until);
  /// The same until one of them is done.
  bool wait_any(std::span<Pending* const> pending, Clock::time_point until);
  /// Drives until then, or sleeps while another thread drives: for what arrives without an operation.
  void drive_until(Clock::time_point until);
  /// Runs `task` while no other thread owns the engine. False: the owner has not begun it by `until`, and it will not
  /// run. On a thread that owns the engine that is so at once; without `until` it throws Error{invalid_argument}.
  bool exclusively(const std::function<void()>& task, Clock::time_point until = Clock::time_point::max());
  /// The same without waiting: `task` runs here, or soon on the owner's thread.
  void post(std::function<void()> task);
  /// Joins the helper thread. What is submitted afterwards must ask has_stopped(), and end.
  void stop() noexcept;
  bool has_stopped() const noexcept { return helper_.has_stopped(); }

  // ---- For the owner ----
  /// One pass over all transports, for a caller that looks for a message itself.
  void pass() noexcept {
    progress();
    if (++passes_since_look_ >= passes_per_look) look();
  }
  /// The same, and it looks at quiet descriptors, too.
  void pass_and_look() noexcept {
    look();
    progress();
  }
  /// For a caller that takes messages from a link itself.
  transport::Sink& sink() noexcept { return channels_; }
  void attach(transport::Channel channel, ChannelUser& user) { channels_.attach(channel, user); }
  /// Closes the channel on all transports: says bye, or tells the peers what has failed.
  void detach(transport::Channel channel, const Error* reason, Clock::time_point deadline) noexcept;
  void abort_channel(transport::Channel channel, const Error& reason) noexcept;
  /// `failed.fail_now()` will run once no transport is on the stack.
  void fail_soon(Failable& failed) { failing_.push(&failed); }
  /// What every pass does, after the transports.
  StepQueue& steps() noexcept { return steps_; }
  /// The processes of these global ranks have ended.
  void departed(std::span<const int> ranks) noexcept {
    for (Pending* const pending : deadlines_.all()) pending->departed(ranks);
  }
  void forget(Failable& failed);
  /// Calls progress() of `pollable` in every pass until it is idle.
  void poll(Pollable& pollable);
  void forget(Pollable& pollable) { std::erase(polled_, &pollable); }
  /// Calls pending.expire() at that time, unless it has finished before.
  void look_at(Pending& pending, Clock::time_point then) noexcept { deadlines_.set(pending, then); }
  void finished(Pending& pending, const Error* error = nullptr) noexcept;
  /// Wakes the threads that wait for an operation, since it was abandoned.
  void left() noexcept { finished_any_ = true; }
  /// Cuts all connections, for fault injection: see Transport::cut().
  void cut() noexcept {
    for (const auto& transport : transports_) transport->cut();
  }

 private:
  static constexpr int passes_per_look = 64;  // how often an idle driver looks at the clock and at quiet descriptors

  void disown_to(bool others_wait) noexcept;
  void take(Pending& pending) noexcept {
    pending.retain();
    if (pending.asynchronous) helper_.work_begins();
  }
  void begin(Pending& pending) noexcept;
  void take_mail() noexcept;
  bool progress() noexcept;
  void clean_up_failures() noexcept;
  void note_presence() noexcept;
  void look() noexcept;
  void idle(int passes, Clock::time_point until) noexcept;
  void sleep(Clock::time_point until) noexcept;
  Clock::time_point expire_overdue() noexcept;
  template <class Done>
  bool wait_until(const Done& done, Clock::time_point until);
  template <class Done>
  void drive(Done&& done, Clock::time_point until) noexcept;
  void leave(Ownership::Lock& lock) noexcept;
  void run_alone(Ownership::Lock& lock, const std::function<void()>& task);
  void run_task(const std::function<void()>& task);
  void drive_as_helper() noexcept;

  const ForkMark mark_;
  transport::Reactor reactor_;
  Ownership ownership_{reactor_};
  Helper helper_{ownership_, [this] { drive_as_helper(); }};

  // For the owner only:
  Patience patience_;        // until something has finished
  Patience usual_patience_;  // from then on
  Channels channels_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<Pollable*> polled_;
  Deadlines deadlines_;  // of all running operations
  StepQueue steps_;
  Fifo<Failable*> failing_;
  std::shared_ptr<trace::Recorder> recorder_;  // null: no trace is recorded
  std::int64_t looked_ = 0;                    // for a trace: when the links were last looked at
  bool finished_any_ = false;
  int passes_since_look_ = 0;
  unsigned disowned_ = 0;  // how often, while other threads waited
};

}  // namespace tutti::detail
