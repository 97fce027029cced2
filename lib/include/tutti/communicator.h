#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tutti/export.h"
#include "tutti/options.h"
#include "tutti/persistent.h"
#include "tutti/request.h"
#include "tutti/work.h"

namespace tutti {

namespace detail {
class Allocator;
class CommunicatorState;
}  // namespace detail

using Counts = std::span<const std::size_t>;

/// A fixed group of ranks that runs collectives together. Start reading here.
///
/// Agreement: every rank calls the same collectives in the same order with the same count, element type, op
///            and root; a rank that does not ends the operation with Error{mismatch} on the ranks that see it.
/// In place:  input and output may be the same memory, where they describe the same part of the result
///            (for all_gather, gather, scatter and reduce_scatter: `in` or `out` is this rank's own part of the
///            larger buffer). Any other overlap is Error{invalid_argument}.
/// Ownership: buffers stay yours. With `_async` they must live, untouched, until the Work is done.
/// Threading: any thread may call, several at once, also on one Communicator. Collectives start in the order in which
///            the calls arrive, which must be the same on all ranks: threads that call them on one Communicator take
///            turns by themselves, or have a sub-group each. Messages have no such order.
/// Fork:      a child of fork() gets Error{invalid_argument} from everything that sends or waits, and may destroy what
///            it inherited; the parent goes on undisturbed. While the child lives and has not called exec, the
///            parent's death is noticed late (TUTTI_LOST_AFTER): it shares the connections.
/// Failure:   Error{invalid_argument} or {unsupported} is thrown at once, with nothing sent. Any other Error
///            comes from waiting, leaves the output unspecified, and makes the communicator unusable.
/// Zero elements are allowed everywhere and send nothing. Every collective has two shapes, `name(...)` which waits and
/// `name_async(...)` which returns a Work. Below n is size(), r is rank(), and x_k is `in` (or `data`) on rank k.
class TUTTI_API Communicator {
 public:
  explicit Communicator(std::shared_ptr<detail::CommunicatorState> state);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Returns once everything sent is on its way. Work still pending fails with Error{aborted}.
  ~Communicator();

  int rank() const;
  int size() const;
  /// This process's place among the ranks on its host, and how many there are.
  int local_rank() const;
  int local_size() const;

  // ---- All ranks get a result -------------------------------------------------------------------------

  /// data[i] = x_0[i] op x_1[i] op ... op x_{n-1}[i], on every rank, with the same bits everywhere.
  template <MutableElements Data>
  void all_reduce(Data&& data, const Op& op, const CallOptions& options = {}) {
    run(Collective::all_reduce, detail::const_buffer(data), detail::buffer(data), &op, options);
  }
  template <MutableElements Data>
  Work all_reduce_async(Data&& data, const Op& op, const CallOptions& options = {}) {
    return start(Collective::all_reduce, detail::const_buffer(data), detail::buffer(data), &op, options);
  }
  /// out[i] = x_0[i] op ... op x_{n-1}[i]. Shapes: `in` and `out` have the same count.
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void all_reduce(const In& in, Out&& out, const Op& op, const CallOptions& options = {}) {
    run(Collective::all_reduce, detail::const_buffer(in), detail::buffer(out), &op, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work all_reduce_async(const In& in, Out&& out, const Op& op,
                                                              const CallOptions& options = {}) {
    return start(Collective::all_reduce, detail::const_buffer(in), detail::buffer(out), &op, options);
  }

  /// out[k * count + i] = x_k[i], 0 <= k < n. Shapes: `in` has count elements, `out` n * count.
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void all_gather(const In& in, Out&& out, const CallOptions& options = {}) {
    run(Collective::all_gather, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work all_gather_async(const In& in, Out&& out,
                                                              const CallOptions& options = {}) {
    return start(Collective::all_gather, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  /// The parts of all ranks one after the other; rank k brings counts[k] elements (`counts` equal on all ranks).
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void all_gather_v(const In& in, Out&& out, Counts counts, const CallOptions& options = {}) {
    run_v(Collective::all_gather, detail::const_buffer(in), detail::buffer(out), counts, Counts{}, nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work all_gather_v_async(const In& in, Out&& out, Counts counts,
                                                                const CallOptions& options = {}) {
    return start_v(Collective::all_gather, detail::const_buffer(in), detail::buffer(out), counts, Counts{}, nullptr,
                   options);
  }

  /// out[i] = x_0[r * count + i] op ... op x_{n-1}[r * count + i]. Shapes: `in` n * count, `out` count elements.
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void reduce_scatter(const In& in, Out&& out, const Op& op, const CallOptions& options = {}) {
    run(Collective::reduce_scatter, detail::const_buffer(in), detail::buffer(out), &op, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work reduce_scatter_async(const In& in, Out&& out, const Op& op,
                                                                  const CallOptions& options = {}) {
    return start(Collective::reduce_scatter, detail::const_buffer(in), detail::buffer(out), &op, options);
  }
  /// The same with counts[k] elements for rank k (`counts` equal on all ranks).
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void reduce_scatter_v(const In& in, Out&& out, Counts counts, const Op& op, const CallOptions& options = {}) {
    run_v(Collective::reduce_scatter, detail::const_buffer(in), detail::buffer(out), counts, Counts{}, &op, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work reduce_scatter_v_async(const In& in, Out&& out, Counts counts,
                                                                    const Op& op, const CallOptions& options = {}) {
    return start_v(Collective::reduce_scatter, detail::const_buffer(in), detail::buffer(out), counts, Counts{}, &op,
                   options);
  }

  /// out[k * count + i] = x_k[r * count + i]. Shapes: `in` and `out` have n * count elements.
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void all_to_all(const In& in, Out&& out, const CallOptions& options = {}) {
    run(Collective::all_to_all, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work all_to_all_async(const In& in, Out&& out,
                                                              const CallOptions& options = {}) {
    return start(Collective::all_to_all, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  /// Sends send_counts[k] elements to rank k and gets recv_counts[k] from it; parts lie one after the other.
  /// Agreement: recv_counts[k] here equals send_counts[r] on rank k. Not in place.
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void all_to_all_v(const In& in, Counts send_counts, Out&& out, Counts recv_counts, const CallOptions& options = {}) {
    run_v(Collective::all_to_all, detail::const_buffer(in), detail::buffer(out), send_counts, recv_counts, nullptr,
          options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work all_to_all_v_async(const In& in, Counts send_counts, Out&& out,
                                                                Counts recv_counts, const CallOptions& options = {}) {
    return start_v(Collective::all_to_all, detail::const_buffer(in), detail::buffer(out), send_counts, recv_counts,
                   nullptr, options);
  }

  /// No rank returns before every rank has called.
  void barrier(const CallOptions& options = {}) {
    run(Collective::barrier, detail::ConstBuffer{}, detail::Buffer{}, nullptr, options);
  }
  Work barrier_async(const CallOptions& options = {}) {
    return start(Collective::barrier, detail::ConstBuffer{}, detail::Buffer{}, nullptr, options);
  }

  // ---- One rank, the root, gives or gets ----------------------------------------------------------------

  /// data[i] = x_root[i] on every rank.
  template <MutableElements Data>
  void broadcast(Data&& data, const RootOptions& options = {}) {
    run(Collective::broadcast, detail::const_buffer(data), detail::buffer(data), nullptr, options);
  }
  template <MutableElements Data>
  Work broadcast_async(Data&& data, const RootOptions& options = {}) {
    return start(Collective::broadcast, detail::const_buffer(data), detail::buffer(data), nullptr, options);
  }

  /// On the root data[i] = x_0[i] op ... op x_{n-1}[i]; on the others `data` is read only.
  template <MutableElements Data>
  void reduce(Data&& data, const Op& op, const RootOptions& options = {}) {
    run(Collective::reduce, detail::const_buffer(data), detail::buffer(data), &op, options);
  }
  template <MutableElements Data>
  Work reduce_async(Data&& data, const Op& op, const RootOptions& options = {}) {
    return start(Collective::reduce, detail::const_buffer(data), detail::buffer(data), &op, options);
  }
  /// The same into `out`, which is written on the root only and may be empty elsewhere.
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void reduce(const In& in, Out&& out, const Op& op, const RootOptions& options = {}) {
    run(Collective::reduce, detail::const_buffer(in), detail::buffer(out), &op, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work reduce_async(const In& in, Out&& out, const Op& op,
                                                          const RootOptions& options = {}) {
    return start(Collective::reduce, detail::const_buffer(in), detail::buffer(out), &op, options);
  }

  /// out[i] = x_root[r * count + i]. Shapes: `out` has count elements; `in` n * count on the root, ignored elsewhere.
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void scatter(const In& in, Out&& out, const RootOptions& options = {}) {
    run(Collective::scatter, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work scatter_async(const In& in, Out&& out, const RootOptions& options = {}) {
    return start(Collective::scatter, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  /// The same with counts[k] elements for rank k (`counts` equal on all ranks).
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void scatter_v(const In& in, Counts counts, Out&& out, const RootOptions& options = {}) {
    run_v(Collective::scatter, detail::const_buffer(in), detail::buffer(out), counts, Counts{}, nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work scatter_v_async(const In& in, Counts counts, Out&& out,
                                                             const RootOptions& options = {}) {
    return start_v(Collective::scatter, detail::const_buffer(in), detail::buffer(out), counts, Counts{}, nullptr,
                   options);
  }

  /// On the root out[k * count + i] = x_k[i]. Shapes: `in` has count elements; `out` n * count on the root,
  /// ignored (and may be empty) elsewhere.
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void gather(const In& in, Out&& out, const RootOptions& options = {}) {
    run(Collective::gather, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work gather_async(const In& in, Out&& out, const RootOptions& options = {}) {
    return start(Collective::gather, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  /// The same with counts[k] elements from rank k (`counts` equal on all ranks).
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out>
  void gather_v(const In& in, Out&& out, Counts counts, const RootOptions& options = {}) {
    run_v(Collective::gather, detail::const_buffer(in), detail::buffer(out), counts, Counts{}, nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Work gather_v_async(const In& in, Out&& out, Counts counts,
                                                            const RootOptions& options = {}) {
    return start_v(Collective::gather, detail::const_buffer(in), detail::buffer(out), counts, Counts{}, nullptr,
                   options);
  }

  // ---- The same call again and again --------------------------------------------------------------------

  /// Each makes the call of its name ready, to be started any number of times: see Persistent. What is wrong with it is
  /// thrown here, and nothing is sent.
  template <MutableElements Data>
  Persistent prepare_all_reduce(Data&& data, const Op& op, const CallOptions& options = {}) {
    return prepare(Collective::all_reduce, detail::const_buffer(data), detail::buffer(data), &op, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Persistent prepare_all_reduce(const In& in, Out&& out, const Op& op,
                                                                      const CallOptions& options = {}) {
    return prepare(Collective::all_reduce, detail::const_buffer(in), detail::buffer(out), &op, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Persistent prepare_all_gather(const In& in, Out&& out,
                                                                      const CallOptions& options = {}) {
    return prepare(Collective::all_gather, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Persistent prepare_reduce_scatter(const In& in, Out&& out, const Op& op,
                                                                          const CallOptions& options = {}) {
    return prepare(Collective::reduce_scatter, detail::const_buffer(in), detail::buffer(out), &op, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Persistent prepare_all_to_all(const In& in, Out&& out,
                                                                      const CallOptions& options = {}) {
    return prepare(Collective::all_to_all, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  Persistent prepare_barrier(const CallOptions& options = {}) {
    return prepare(Collective::barrier, detail::ConstBuffer{}, detail::Buffer{}, nullptr, options);
  }
  template <MutableElements Data>
  Persistent prepare_broadcast(Data&& data, const RootOptions& options = {}) {
    return prepare(Collective::broadcast, detail::const_buffer(data), detail::buffer(data), nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Persistent prepare_reduce(const In& in, Out&& out, const Op& op,
                                                                  const RootOptions& options = {}) {
    return prepare(Collective::reduce, detail::const_buffer(in), detail::buffer(out), &op, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Persistent prepare_scatter(const In& in, Out&& out,
                                                                   const RootOptions& options = {}) {
    return prepare(Collective::scatter, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }
  template <Elements In, MutableElements Out>
  requires detail::SameElement<In, Out> Persistent prepare_gather(const In& in, Out&& out,
                                                                  const RootOptions& options = {}) {
    return prepare(Collective::gather, detail::const_buffer(in), detail::buffer(out), nullptr, options);
  }

  // ---- Two ranks ----------------------------------------------------------------------------------------

  /// Sends `data` to rank `to`. A small message returns at once; a large one once the receiver has taken it.
  /// Messages of one sender with one tag arrive in the order they were sent.
  template <Elements Data>
  void send(const Data& data, int to, const MessageOptions& options = {}) {
    run_send(detail::const_buffer(data), to, options);
  }
  template <Elements Data>
  Work isend(const Data& data, int to, const MessageOptions& options = {}) {
    return start_send(detail::const_buffer(data), to, options);
  }
  /// Receives one message into `data` from rank `from` (or `any_source`) with the tag (or `any_tag`).
  /// A message longer than `data` or of another element type is Error{mismatch}; a shorter one is reported in the
  /// status.
  template <MutableElements Data>
  MessageStatus recv(Data&& data, int from, const MessageOptions& options = {}) {
    return run_recv(detail::buffer(data), from, options);
  }
  template <MutableElements Data>
  Work irecv(Data&& data, int from, const MessageOptions& options = {}) {
    return start_recv(detail::buffer(data), from, options);
  }

  // ---- Sub-groups ---------------------------------------------------------------------------------------

  /// A communicator of `ranks` (ranks of this one, distinct; new ranks follow their order). Only the members call,
  /// all with the same list. No message is sent; a sub-group outlives its parent safely.
  Communicator subgroup(std::span<const int> ranks);
  Communicator subgroup(std::initializer_list<int> ranks) { return subgroup(std::span{ranks.begin(), ranks.size()}); }
  /// All ranks call; those with the same colour (>= 0) form one communicator, ordered by key, then by rank.
  Communicator split(int colour, int key = 0);

  // ---- Failure ------------------------------------------------------------------------------------------

  /// Makes every pending and later call on this communicator and on those made from it throw Error{aborted} with
  /// `reason`, here at once and on all other ranks soon. Any thread may call, again and again; returns within a second.
  void abort(std::string_view reason);
  /// A communicator of the survivors, in the order of their ranks here, after a rank was lost (or without: then of
  /// all). Every survivor calls; returns when all have, within `timeout` (0: the communicator's). This communicator
  /// stays as it is. Throws Error{timeout} naming who is alive but did not call, {unsupported} where ranks are threads.
  Communicator shrink(std::chrono::milliseconds timeout = {});

  /// Name of the algorithm that the tuning table chooses for a call that moves `bytes`, as accepted by `algorithm`.
  std::string chosen_algorithm(Collective collective, std::size_t bytes) const;
  /// How this rank reaches `peer`: "shm", "tcp", "inproc" or "self".
  std::string transport_to(int peer) const;

 private:
  friend class detail::Allocator;
  template <class Options>
  static detail::Request request(Collective collective, detail::ConstBuffer in, detail::Buffer out, const Op* op,
                                 const Options& options) {
    detail::Request request{.collective = collective,
                            .input = in,
                            .output = out,
                            .op = op,
                            .algorithm = options.algorithm,
                            .timeout = options.timeout};
    if constexpr (requires { options.root; }) request.root = options.root;
    return request;
  }
  template <class Options>
  static detail::Request request_v(Collective collective, detail::ConstBuffer in, detail::Buffer out, Counts counts,
                                   Counts recv_counts, const Op* op, const Options& options) {
    detail::Request result = request(collective, in, out, op, options);
    result.counts = counts;
    result.recv_counts = recv_counts;
    result.variable = true;
    return result;
  }
  template <class... Arguments>
  Work start(const Arguments&... arguments) {
    return start_collective(request(arguments...));
  }
  template <class... Arguments>
  Work start_v(const Arguments&... arguments) {
    return start_collective(request_v(arguments...));
  }
  template <class... Arguments>
  Persistent prepare(const Arguments&... arguments) {
    return prepare_collective(request(arguments...));
  }
  template <class... Arguments>
  void run(const Arguments&... arguments) {
    run_collective(request(arguments...));
  }
  template <class... Arguments>
  void run_v(const Arguments&... arguments) {
    run_collective(request_v(arguments...));
  }

  // Waiting calls are not start + wait: the engine need not get ready for a caller that goes away.
  Work start_collective(const detail::Request& request);
  void run_collective(const detail::Request& request);
  Persistent prepare_collective(const detail::Request& request);
  Work start_send(detail::ConstBuffer data, int to, const MessageOptions& options);
  void run_send(detail::ConstBuffer data, int to, const MessageOptions& options);
  Work start_recv(detail::Buffer data, int from, const MessageOptions& options);
  MessageStatus run_recv(detail::Buffer data, int from, const MessageOptions& options);

  std::shared_ptr<detail::CommunicatorState> state_;
};

/// Joins the ranks that the launcher started (tutti run, torchrun, mpirun, srun, a Kubernetes indexed job), or those
/// that `options` describe. Returns when all have met; throws Error{rendezvous} or {invalid_argument} naming what is
/// missing. With nothing set at all, this process is rank 0 of 1.
TUTTI_API Communicator connect(const ConnectOptions& options = {});

}  // namespace tutti
