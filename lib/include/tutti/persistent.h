#pragma once

#include <memory>

#include "tutti/export.h"

namespace tutti {

namespace detail {
class PersistentCall;
}

/// A collective made ready once and started as often as wanted: what each call would check, choose and bind to memory
/// is done already. Made by Communicator::prepare_all_reduce() and the like.
///
///     auto op = comm.prepare_all_reduce(in, out, tutti::sum);
///     for (...) { fill(in); op.start(); overlap(); op.wait(); use(out); }
///
/// Effect:    start() and wait() together, or run(), do what the call of that name does, with what the buffers hold at
///            start(). Preparing says nothing to the other ranks: start() is the call, and one that is started here may
///            be an ordinary call there.
/// Agreement: starts count as calls: the same ones in the same order on all ranks, between the other collectives.
/// In place:  as the ordinary call.
/// Ownership: the buffers, as they were given (a vector that moves its elements is another one), stay yours and must
///            live as long as this object, and untouched between start() and the end of wait(). It keeps its
///            communicator's connections open until it is destroyed. Destroyed while started, the call goes on: its
///            buffers must live until all ranks are through with it.
/// Threading: any thread, one at a time per object.
/// Failure:   start() before wait() is Error{invalid_argument}, with nothing sent; so is all use in a child of fork().
///            Any other Error comes from wait() or run(), as from the ordinary call.
class [[nodiscard]] TUTTI_API Persistent {
 public:
  explicit Persistent(std::unique_ptr<detail::PersistentCall> call) noexcept;
  Persistent(Persistent&&) noexcept;
  Persistent& operator=(Persistent&&) noexcept;
  ~Persistent();

  /// Begins the call; it goes on by itself. A tiny one over shared memory, with a core for each rank, may be over at
  /// once: that is tried for a microsecond or two.
  void start();
  /// Until what was started is over; throws its Error. Nothing started: returns.
  void wait();
  /// start() and wait(), for who does nothing in between.
  void run();
  /// Nothing is on its way: not started, waited for, or over.
  bool done() const;

 private:
  std::unique_ptr<detail::PersistentCall> call_;
};

}  // namespace tutti
