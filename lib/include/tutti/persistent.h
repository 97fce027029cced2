#pragma once

#include <memory>

#include "tutti/export.h"
#include "tutti/work.h"

namespace tutti {

namespace detail {
class PersistentCall;
}

/// A collective made ready once and started as often as wanted: what each call would check, choose and bind to memory
/// is done already. Made by Communicator::prepare(). As a Handle it stands for its last start.
///
///     auto op = comm.prepare().all_reduce(in, out, tutti::sum);
///     for (...) { fill(in); op.start(); overlap(); op.wait(); use(out); }
///
/// Effect:    start() and wait() together, or run(), do what the call of that name does, with what the buffers hold at
///            start(). Preparing says nothing to the other ranks: start() is the call, and one that is started here may
///            be an ordinary call there.
/// Agreement: a start is a call. All ranks make the same calls in the same order.
/// In place:  as the ordinary call.
/// Ownership: the buffers, as they were given (a vector that moves its elements is another one), stay yours and must
///            live as long as this object, and untouched between start() and the end of wait(). It keeps its
///            communicator's connections open until it is destroyed. Destroyed while started, the call goes on: its
///            buffers must live until all ranks are through with it.
/// Failure:   start() again without a wait() or wait_for() that has seen the end of the one before is
///            Error{invalid_argument}, with nothing sent; so is start() in a child of fork(), and of an object that was
///            moved from. Any other Error comes from waiting, as from the ordinary call.
class [[nodiscard]] TUTTI_API Persistent : public Handle {
 public:
  Persistent(Persistent&&) noexcept;
  Persistent& operator=(Persistent&&) noexcept;
  ~Persistent();

  /// Begins the call; it goes on by itself. A tiny one over shared memory, with a core for each rank, may be over at
  /// once: that is tried for a microsecond or two.
  void start();
  /// Equivalent to start(); wait();
  void run();

 private:
  friend class detail::Internals;
  explicit Persistent(std::unique_ptr<detail::PersistentCall> call) noexcept;
  void begin(bool asynchronous);
  /// Throws where there is none, since it was moved from.
  detail::PersistentCall& call(const char* name) const;

  std::unique_ptr<detail::PersistentCall> call_;
};

}  // namespace tutti
