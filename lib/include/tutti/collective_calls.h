#pragma once

#include <type_traits>

#include "tutti/counts.h"
#include "tutti/options.h"
#include "tutti/request.h"
#include "tutti/types.h"

namespace tutti {
inline namespace TUTTI_ABI {

/// The collectives. Each can wait for its result, be started, or be prepared:
///
///     comm.all_reduce(data, tutti::sum);                                     // waits for the result
///     tutti::Work work = comm.async().all_reduce(data, tutti::sum);          // starts it
///     tutti::Persistent call = comm.prepare().all_reduce(data, tutti::sum);  // prepares it
///
/// Below n is size(), r is rank(), and x_k is `in` (or `data`) on rank k.
///
/// Shapes:    as stated, in elements; else Error{invalid_argument}. Zero elements are allowed and send nothing.
///            `counts` has one entry per rank, the same on all ranks unless stated otherwise.
/// Memory:    of the host. For that of a GPU give a gpu::Span for each buffer and a stream in the options, see gpu.h.
/// Elements:  reductions (those with an op) combine Reducible types; the others move any Element.
/// In place:  `in` and `out` of all_reduce, reduce, the scans and all_to_all may be the same memory. `in` of all_gather
///            and gather may be this rank's part of `out`, and `out` of scatter and reduce_scatter this rank's part of
///            `in`. Any other overlap is Error{invalid_argument}.
/// Ownership: buffers stay yours. async() and prepare() take no temporaries, since they use the buffers later; op,
///            counts and options are copied.
/// Errors and threads: see Communicator.
template <class Caller, class Result>
class CollectiveCalls {
 public:
  // ---- All ranks get a result -------------------------------------------------------------------------

  /// data[i] = x_0[i] op x_1[i] op ... op x_{n-1}[i], on every rank, with the same bits everywhere.
  template <class Data>
  Result all_reduce(Data&& data, const Op& op, const CallOptions& options = {}) {
    return reducing<Data, Data>(Collective::all_reduce, data, data, op, options);
  }
  /// The same into `out`, which has as many elements as `in`.
  template <class In, class Out>
  Result all_reduce(In&& in, Out&& out, const Op& op, const CallOptions& options = {}) {
    return reducing<In, Out>(Collective::all_reduce, in, out, op, options);
  }

  /// out[k * count + i] = x_k[i], 0 <= k < n. Shapes: `in` has count elements, `out` n * count.
  template <class In, class Out>
  Result all_gather(In&& in, Out&& out, const CallOptions& options = {}) {
    return moving<In, Out>(Collective::all_gather, in, out, options);
  }
  /// The same with counts[k] elements from rank k.
  template <class In, class Out>
  Result all_gather_v(In&& in, Out&& out, const Counts& counts, const CallOptions& options = {}) {
    return moving<In, Out>(Collective::all_gather, in, out, options, {.counts = &counts});
  }

  /// out[i] = x_0[r * count + i] op ... op x_{n-1}[r * count + i]. Shapes: `in` n * count, `out` count elements.
  template <class In, class Out>
  Result reduce_scatter(In&& in, Out&& out, const Op& op, const CallOptions& options = {}) {
    return reducing<In, Out>(Collective::reduce_scatter, in, out, op, options);
  }
  /// The same with counts[k] elements for rank k.
  template <class In, class Out>
  Result reduce_scatter_v(In&& in, Out&& out, const Counts& counts, const Op& op, const CallOptions& options = {}) {
    return reducing<In, Out>(Collective::reduce_scatter, in, out, op, options, {.counts = &counts});
  }

  /// out[k * count + i] = x_k[r * count + i]. Shapes: `in` and `out` have n * count elements.
  template <class In, class Out>
  Result all_to_all(In&& in, Out&& out, const CallOptions& options = {}) {
    return moving<In, Out>(Collective::all_to_all, in, out, options);
  }
  /// Sends send_counts[k] elements to rank k and gets recv_counts[k] from it. `in` and `out` must not overlap.
  /// Agreement: recv_counts[k] here equals send_counts[r] on rank k. Displacements are each rank's own.
  template <class In, class Out>
  Result all_to_all_v(In&& in, const Counts& send_counts, Out&& out, const Counts& recv_counts,
                      const CallOptions& options = {}) {
    return moving<In, Out>(Collective::all_to_all, in, out, options,
                           {.counts = &send_counts, .recv_counts = &recv_counts});
  }

  /// data[i] = x_0[i] op x_1[i] op ... op x_r[i]. The op need not commute: contributions of lower ranks stand on the
  /// left. `avg` is Error{invalid_argument}: use `sum`, and divide by r + 1.
  template <class Data>
  Result scan(Data&& data, const Op& op, const CallOptions& options = {}) {
    return reducing<Data, Data>(Collective::scan, data, data, op, options);
  }
  /// The same into `out`, which has as many elements as `in`.
  template <class In, class Out>
  Result scan(In&& in, Out&& out, const Op& op, const CallOptions& options = {}) {
    return reducing<In, Out>(Collective::scan, in, out, op, options);
  }
  /// data[i] = x_0[i] op ... op x_{r-1}[i], like scan(), but without this rank's own contribution. On rank 0 `data`
  /// stays as it is, since not every op has a neutral element.
  template <class Data>
  Result exclusive_scan(Data&& data, const Op& op, const CallOptions& options = {}) {
    return reducing<Data, Data>(Collective::exclusive_scan, data, data, op, options);
  }
  /// The same into `out`, which has as many elements as `in`. On rank 0 `out` stays as it is, and may be empty.
  template <class In, class Out>
  Result exclusive_scan(In&& in, Out&& out, const Op& op, const CallOptions& options = {}) {
    return reducing<In, Out>(Collective::exclusive_scan, in, out, op, options);
  }

  /// Returns after all ranks have called it.
  Result barrier(const CallOptions& options = {}) {
    return static_cast<Caller&>(*this).perform(request(Collective::barrier, {}, {}, nullptr, options, {}));
  }

  // ---- One rank, the root, sends or receives. All ranks name the same root -------------------------------

  /// data[i] = x_root[i] on every rank.
  template <class Data>
  Result broadcast(Data&& data, int root, const CallOptions& options = {}) {
    return moving<Data, Data>(Collective::broadcast, data, data, options, {.root = root});
  }

  /// On the root data[i] = x_0[i] op ... op x_{n-1}[i]; on the others `data` is read only.
  template <class Data>
  Result reduce(Data&& data, const Op& op, int root, const CallOptions& options = {}) {
    return reducing<Data, Data>(Collective::reduce, data, data, op, options, {.root = root});
  }
  /// The same into `out`, which is written on the root only and may be empty elsewhere.
  template <class In, class Out>
  Result reduce(In&& in, Out&& out, const Op& op, int root, const CallOptions& options = {}) {
    return reducing<In, Out>(Collective::reduce, in, out, op, options, {.root = root});
  }

  /// out[i] = x_root[r * count + i]. Shapes: `out` has count elements; `in` n * count on the root, ignored elsewhere.
  template <class In, class Out>
  Result scatter(In&& in, Out&& out, int root, const CallOptions& options = {}) {
    return moving<In, Out>(Collective::scatter, in, out, options, {.root = root});
  }
  /// The same with counts[k] elements for rank k.
  template <class In, class Out>
  Result scatter_v(In&& in, const Counts& counts, Out&& out, int root, const CallOptions& options = {}) {
    return moving<In, Out>(Collective::scatter, in, out, options, {.root = root, .counts = &counts});
  }

  /// On the root out[k * count + i] = x_k[i]. Shapes: `in` has count elements; `out` n * count on the root, ignored
  /// (and may be empty) elsewhere.
  template <class In, class Out>
  Result gather(In&& in, Out&& out, int root, const CallOptions& options = {}) {
    return moving<In, Out>(Collective::gather, in, out, options, {.root = root});
  }
  /// The same with counts[k] elements from rank k.
  template <class In, class Out>
  Result gather_v(In&& in, Out&& out, const Counts& counts, int root, const CallOptions& options = {}) {
    return moving<In, Out>(Collective::gather, in, out, options, {.root = root, .counts = &counts});
  }

 private:
  friend Caller;
  CollectiveCalls() = default;

  /// Arguments that only some collectives have.
  struct Extra {
    int root = 0;
    const Counts* counts = nullptr;
    const Counts* recv_counts = nullptr;
  };
  static constexpr auto lifetime = std::is_void_v<Result> ? detail::Lifetime::call : detail::Lifetime::beyond;

  static detail::Request request(Collective collective, const detail::ConstBuffer& in, const detail::Buffer& out,
                                 const Op* op, const CallOptions& options, const Extra& extra) {
    using Numbers = std::span<const std::size_t>;
    return {.collective = collective,
            .input = in,
            .output = out,
            .op = op,
            .root = extra.root,
            .counts = extra.counts ? extra.counts->counts() : Numbers{},
            .recv_counts = extra.recv_counts ? extra.recv_counts->counts() : Numbers{},
            .variable = extra.counts != nullptr,
            .displacements = extra.counts ? extra.counts->displacements() : Numbers{},
            .recv_displacements = extra.recv_counts ? extra.recv_counts->displacements() : Numbers{},
            .algorithm = options.algorithm,
            .timeout = options.timeout};
  }
  template <class Buffer>
  Result perform(const detail::Request& request, const CallOptions& options) {
    if constexpr (detail::InDeviceMemory<Buffer>)
      return static_cast<Caller&>(*this).perform(request, detail::OnStream{options.stream});
    else
      return static_cast<Caller&>(*this).perform(request);
  }

  template <class In, class Out>
  Result moving(Collective collective, const In& in, Out& out, const CallOptions& options, const Extra& extra = {}) {
    if constexpr (detail::are_buffers<In, Out, lifetime>())
      return perform<In>(request(collective, detail::const_buffer(in), detail::buffer(out), nullptr, options, extra),
                         options);
  }
  template <class In, class Out>
  Result reducing(Collective collective, const In& in, Out& out, const Op& op, const CallOptions& options,
                  const Extra& extra = {}) {
    if constexpr (detail::are_buffers<In, Out, lifetime>() && detail::is_reducible<In>())
      return perform<In>(request(collective, detail::const_buffer(in), detail::buffer(out), &op, options, extra),
                         options);
  }
};

}  // namespace TUTTI_ABI
}  // namespace tutti
