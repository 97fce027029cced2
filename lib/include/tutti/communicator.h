#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "tutti/collective_calls.h"
#include "tutti/export.h"
#include "tutti/options.h"
#include "tutti/persistent.h"
#include "tutti/work.h"

namespace tutti::detail {
class CommunicatorState;
inline namespace TUTTI_ABI {
class Allocator;
}
}  // namespace tutti::detail

namespace tutti {
inline namespace TUTTI_ABI {

class Communicator;

/// See Communicator::async(), whose calls return a Work, and prepare(), whose calls return a Persistent.
template <class Result>
class CallsReturning : public CollectiveCalls<CallsReturning<Result>, Result> {
 private:
  friend Communicator;
  friend CollectiveCalls<CallsReturning, Result>;
  explicit CallsReturning(Communicator& comm) : comm_(comm) {}
  Result perform(const detail::Request& request);
  Result perform(const detail::Request& request, detail::OnStream on);
  Communicator& comm_;
};

/// A fixed group of ranks that runs collectives together. Start reading here, and go on in collective_calls.h.
///
/// Agreement: every rank calls the same collectives in the same order with the same count, element type, op and root;
///            else Error{mismatch}. A rank that waits for another one gets the error in this call, any other rank in
///            its next call.
/// Ownership: buffers stay yours. Those of async(), prepare(), isend() and irecv() must live, untouched, until the call
///            is done; the compiler rejects a temporary, which would not.
/// Threading: any thread may call, several at once, also on one Communicator. Collectives start in the order in which
///            the calls arrive, which must be the same on all ranks: threads that call them on one Communicator
///            synchronise among themselves, or use a sub-group each. Messages have no such order.
/// Fork:      a child of fork() gets Error{invalid_argument} from everything that sends or waits by what it inherited,
///            which it may destroy. It may connect() anew, and the parent goes on undisturbed. While the child lives
///            and has not called exec, the parent's death is noticed late (TUTTI_LOST_AFTER), since the child shares
///            the connections.
/// Failure:   Error{invalid_argument} and {unsupported} are thrown at once, and nothing is sent. An empty object
///            throws the former. All other errors come from waiting. After {truncated}, see recv(), and the {timeout}
///            of a probe() the communicator can be used further; after any other of them it cannot, nor can the output.
///            Calls that share memory are an exception: see allocate.h and gpu_memory.h.
class TUTTI_API Communicator : public CollectiveCalls<Communicator, void> {
 public:
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Waits until the transports have taken all messages. Work still pending fails with Error{aborted}.
  ~Communicator();

  /// False: this object is empty. It was moved from, or comes from split() with no_group, and its calls throw
  /// Error{invalid_argument}.
  explicit operator bool() const { return state_ != nullptr; }
  int rank() const;
  int size() const;
  /// This rank's index among the ranks of this communicator on its host, and how many there are.
  int local_rank() const;
  int local_size() const;

  // ---- Collectives: all_reduce(), broadcast() and the others of collective_calls.h, which wait --------------------

  /// The same collectives, non-blocking: each returns a Work. Use the object within one expression; it refers to this
  /// communicator.
  CallsReturning<Work> async() { return CallsReturning<Work>{*this}; }
  /// The same, prepared to be started any number of times: each returns a Persistent. Errors in arguments are thrown
  /// here, and nothing is sent.
  CallsReturning<Persistent> prepare() { return CallsReturning<Persistent>{*this}; }

  // ---- Two ranks ----------------------------------------------------------------------------------------

  /// Sends `data` to rank `to`. Messages of one sender with one tag arrive in the order they were sent. Sender and
  /// receiver use the same type of Element.
  ///
  /// It returns when `data` may change. A large message waits until the receiver has taken it. One of up to 64 KiB over
  /// TCP, or 256 KiB in shared memory, does not wait for its receive, only for room (docs/failures.md, "When a send
  /// returns"). A rank that sends more than that before the other enters the library uses isend().
  template <class Data>
  void send(Data&& data, int to, const MessageOptions& options = {}) {
    if constexpr (detail::is_buffer<Data, detail::Access::read, detail::Lifetime::call>())
      run_send(detail::const_buffer(data), to, options, detail::memory_of<Data>);
  }
  /// Starts the same send. `data` must not be a temporary.
  template <class Data>
  Work isend(Data&& data, int to, const MessageOptions& options = {}) {
    if constexpr (detail::is_buffer<Data, detail::Access::read, detail::Lifetime::beyond>())
      return start_send(detail::const_buffer(data), to, options, detail::memory_of<Data>);
  }
  /// Receives one message into `data` from rank `from` (or `any_source`) with the tag (or `any_tag`). The status tells
  /// the length; the rest of `data` stays as it is. A message that is longer than `data`, or of another element type,
  /// is dropped: this receive fails with Error{truncated}, `data` is unchanged, the send succeeds, and the communicator
  /// can still be used.
  template <class Data>
  MessageStatus recv(Data&& data, int from, const MessageOptions& options = {}) {
    if constexpr (detail::is_buffer<Data, detail::Access::write, detail::Lifetime::call>())
      return run_recv(detail::buffer(data), from, options, detail::memory_of<Data>);
  }
  /// Starts the same receive; its status() is that of the message. `data` must not be a temporary.
  template <class Data>
  Work irecv(Data&& data, int from, const MessageOptions& options = {}) {
    if constexpr (detail::is_buffer<Data, detail::Access::write, detail::Lifetime::beyond>())
      return start_recv(detail::buffer(data), from, options, detail::memory_of<Data>);
  }

  /// send() of `out` to rank `to` and recv() into `in` from rank `from` at the same time, with the same tag, so that
  /// ranks may do it in a circle. `out` and `in` may differ in type and count; if they overlap, that is
  /// Error{invalid_argument}. Waits until both are done. A message of 16 KiB or more may wait until `to` makes a call
  /// of tutti.
  template <class Out, class In>
  MessageStatus sendrecv(Out&& out, int to, In&& in, int from, const MessageOptions& options = {}) {
    if constexpr (detail::is_buffer<Out, detail::Access::read, detail::Lifetime::call>() &&
                  detail::is_buffer<In, detail::Access::write, detail::Lifetime::call>()) {
      static_assert(detail::memory_of<Out> == detail::memory_of<In>,
                    "one buffer is in device memory and the other is not: both are a gpu::Span, or none");
      return run_sendrecv(detail::const_buffer(out), to, detail::buffer(in), from, options, detail::memory_of<Out>);
    }
  }
  /// Waits until there is a message that recv() with these arguments would get, and leaves it there: its status tells
  /// how much memory it needs. Another thread may receive it first. If its timeout passes, only this call fails, with
  /// Error{timeout}.
  MessageStatus probe(int from, const MessageOptions& options = {});
  /// The same without waiting. Nothing if there is none yet.
  std::optional<MessageStatus> iprobe(int from, const MessageOptions& options = {});

  // ---- Sub-groups ---------------------------------------------------------------------------------------

  /// A communicator of `ranks` (ranks of this one, distinct; new ranks follow their order). Only the members call, all
  /// with the same list. (Each different list takes 40 bytes until this communicator ends.) No message is sent. The
  /// new communicator may outlive its parent.
  Communicator subgroup(std::span<const int> ranks);
  Communicator subgroup(std::initializer_list<int> ranks) { return subgroup(std::span{ranks.begin(), ranks.size()}); }
  /// All ranks call; those with the same colour (>= 0) form one communicator, ordered by key, then by rank. A rank with
  /// the colour no_group joins none, and gets an empty communicator.
  Communicator split(int colour, int key = 0);
  /// A communicator of the ranks on this host, in the order of their ranks here. All ranks of the host call.
  Communicator split_by_host();

  // ---- Failure ------------------------------------------------------------------------------------------

  /// Makes every pending and later call on this communicator and on those made from it throw Error{aborted} with
  /// `reason`, here at once and on all other ranks soon. Any thread may call, any number of times; returns within a
  /// second. A call that is in an op of yours ends when the op returns.
  void abort(std::string_view reason);
  /// Makes a communicator of the ranks that are still alive, in the order of their ranks here. All of them call; it
  /// returns when all have, within `timeout` (0: the communicator's). This communicator stays as it is. Throws
  /// Error{timeout} that names the ranks that are alive but did not call, after which a rank may call again, and
  /// {unsupported} for ranks without a failure detector: threads, or a job of one rank.
  Communicator shrink(std::chrono::milliseconds timeout = {});

  /// The algorithm of a call that names none, by the name that CallOptions::algorithm takes, for root 0, equal parts
  /// and memory of the host. `bytes` are those of the larger of a rank's input and output.
  std::string chosen_algorithm(Collective collective, std::size_t bytes) const;
  /// How this rank reaches `peer`: "shm", "tcp", "inproc" or "self".
  std::string transport_to(int peer) const;

 private:
  friend class detail::Allocator;
  friend class detail::Internals;
  template <class Result>
  friend class CallsReturning;
  friend CollectiveCalls<Communicator, void>;
  // Waiting calls are not start + wait: the engine need not prepare for a caller that leaves.
  void perform(const detail::Request& request);
  void perform(const detail::Request& request, detail::OnStream on);
  Work start_collective(const detail::Request& request);
  Work start_collective(const detail::Request& request, detail::OnStream on);
  Persistent prepare_collective(const detail::Request& request);
  Persistent prepare_collective(const detail::Request& request, detail::OnStream on);
  Work start_send(detail::ConstBuffer data, int to, const MessageOptions& options, detail::Memory memory);
  void run_send(detail::ConstBuffer data, int to, const MessageOptions& options, detail::Memory memory);
  Work start_recv(detail::Buffer data, int from, const MessageOptions& options, detail::Memory memory);
  MessageStatus run_recv(detail::Buffer data, int from, const MessageOptions& options, detail::Memory memory);
  MessageStatus run_sendrecv(detail::ConstBuffer out, int to, detail::Buffer in, int from,
                             const MessageOptions& options, detail::Memory memory);

  explicit Communicator(std::shared_ptr<detail::CommunicatorState> state);

  std::shared_ptr<detail::CommunicatorState> state_;
};

template <class Result>
Result CallsReturning<Result>::perform(const detail::Request& request) {
  if constexpr (std::is_same_v<Result, Work>)
    return comm_.start_collective(request);
  else
    return comm_.prepare_collective(request);
}

template <class Result>
Result CallsReturning<Result>::perform(const detail::Request& request, detail::OnStream on) {
  if constexpr (std::is_same_v<Result, Work>)
    return comm_.start_collective(request, on);
  else
    return comm_.prepare_collective(request, on);
}

/// Joins the ranks that the launcher started (tutti run, torchrun, mpirun, srun, a Kubernetes indexed job), or those
/// that `options` describe. Returns when all have met; throws Error{rendezvous} or {invalid_argument} naming what is
/// missing. With nothing set at all, this process is rank 0 of 1.
TUTTI_API Communicator connect(const ConnectOptions& options = {});

}  // namespace TUTTI_ABI
}  // namespace tutti
