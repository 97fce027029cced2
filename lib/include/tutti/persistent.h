#pragma once

#include <memory>

#include "tutti/export.h"
#include "tutti/work.h"

namespace tutti::detail {
class PersistentCall;
}

namespace tutti {
inline namespace TUTTI_ABI {

/// A collective that is prepared once and started any number of times: its arguments are checked, its algorithm is
/// chosen and its memory bound in advance. Made by Communicator::prepare(). wait(), done() and error() refer to the
/// latest start().
///
///     auto op = comm.prepare().all_reduce(in, out, tutti::sum);
///     for (...) { fill(in); op.start(); overlap(); op.wait(); use(out); }
///
/// Effect:    start() and wait() together, or run(), do what the ordinary call does, with the contents of the buffers
///            at start(). Preparing sends nothing to the other ranks. Each start() counts as one call; other ranks may
///            match it with an ordinary one.
/// Agreement: a start is a call. All ranks make the same calls in the same order.
/// In place:  as the ordinary call.
/// Ownership: the buffers stay yours. They must live as long as this object, at the same address (do not let a vector
///            reallocate), and stay untouched between start() and the end of wait(). This object keeps its
///            communicator's connections open until it is destroyed. If it is destroyed while started, the call goes
///            on, and its buffers must live until all ranks have completed it.
/// Failure:   wait for the end of each start() before the next one; otherwise start() throws Error{invalid_argument}
///            and sends nothing, as it does in a child of fork() and on an object that was moved from. Any other Error
///            comes from waiting, as from the ordinary call.
class [[nodiscard]] TUTTI_API Persistent : public Handle {
 public:
  Persistent(Persistent&&) noexcept;
  Persistent& operator=(Persistent&&) noexcept;
  ~Persistent();

  /// Starts the call, which proceeds by itself. A tiny one over shared memory, with a core for each rank, may complete
  /// within start(), which tries that for a microsecond or two.
  void start();
  /// Equivalent to start(); wait();
  void run();

 private:
  friend class detail::Internals;
  explicit Persistent(std::unique_ptr<detail::PersistentCall> call) noexcept;
  void begin(bool asynchronous);
  /// Throws if this object was moved from.
  detail::PersistentCall& call(const char* name) const;

  std::unique_ptr<detail::PersistentCall> call_;
};

}  // namespace TUTTI_ABI
}  // namespace tutti
