// The collectives of the C interface: pointer, count and type become the Request that the templates of C++ make, too.

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <span>
#include <string>

#include "lib/base/internals.h"
#include "lib/c/arguments.h"
#include "lib/c/guarded.h"
#include "lib/c/handles.h"
#include "tutti/gpu.h"
#include "tutti/request.h"

namespace tutti::c_api {
namespace {

static_assert(std::same_as<std::size_t, std::uint64_t>, "counts of C are passed on as they are");

class Call {
 public:
  Call(tutti_comm* comm, Collective collective, tutti_type type, const tutti_call_options* options)
      : options_(call_options_of(options)),
        comm_(given(comm, "comm").comm),
        request_{.collective = collective, .input = {}, .output = {}} {
    if (options_.work && options_.persistent) throw Wrong{"work and persistent are both given: give one of them"};
    if (options_.algorithm) request_.algorithm = options_.algorithm;
    request_.timeout = milliseconds_of(options_.timeout_ms);
    request_.input.type = request_.output.type = type_of(type);
  }

  /// A side that this rank gives or gets, if `needed`; else it may be NULL.
  void input(const void* data, std::size_t count, bool needed = true) {
    request_.input.count = checked(data, count, needed, "in");
    request_.input.data = data;
  }
  void output(void* data, std::size_t count, bool needed = true) {
    request_.output.count = checked(data, count, needed, "out");
    request_.output.data = data;
  }

  void root(std::int32_t root) { request_.root = root; }
  bool is_root() const { return comm_.rank() == request_.root; }
  int rank() const { return comm_.rank(); }

  /// `count` for each rank, in all.
  std::size_t of_all(std::size_t count) const { return detail::times(count, static_cast<std::size_t>(comm_.size())); }

  /// The parts of a _v call: those that this rank sends, if they differ from those that it gets.
  void parts(const std::uint64_t* counts, const std::uint64_t* displacements, const char* name) {
    request_.variable = true;
    set_parts(request_.counts, request_.displacements, counts, displacements, name);
  }
  void received_parts(const std::uint64_t* counts, const std::uint64_t* displacements) {
    set_parts(request_.recv_counts, request_.recv_displacements, counts, displacements, "recv_counts");
  }
  std::size_t own_part() const { return request_.counts[static_cast<std::size_t>(comm_.rank())]; }
  /// Elements from the beginning of the buffer to the end of the last part.
  std::size_t all_parts() const { return extent(request_.counts, request_.displacements); }
  std::size_t all_received_parts() const { return extent(request_.recv_counts, request_.recv_displacements); }

  void combine(tutti_op_kind kind) {
    constexpr auto last = static_cast<tutti_op_kind>(OpKind::user);
    if (kind < 0 || kind > last) throw Wrong{fmt::format("{} is not a tutti_op_kind; valid are 0 to {}", kind, last)};
    own_op_ = Op{static_cast<OpKind>(kind)};
    request_.op = &own_op_;
    const bool made = kind == TUTTI_PREMUL_SUM || kind == TUTTI_USER;
    if (!made && options_.op)
      throw Wrong{fmt::format("the op of the options is given, but this call combines by {}", name_of(own_op_.kind()))};
    if (!made) return;
    if (!options_.op || options_.op->op.kind() != own_op_.kind())
      throw Wrong{fmt::format("{} needs an op of that kind in the options (tutti_op_create{})", name_of(own_op_.kind()),
                              kind == TUTTI_USER ? "" : "_premul_sum")};
    request_.op = &options_.op->op;
  }

  void perform() {
    if (options_.on_device)
      perform_by(detail::OnStream{options_.stream});
    else
      perform_by();
  }

 private:
  template <class... On>
  void perform_by(On... on) {
    if (options_.work) {
      give_handle(*options_.work, [&] { return detail::Internals::start(comm_, request_, on...); });
    } else if (options_.persistent) {
      *options_.persistent = new tutti_persistent{detail::Internals::prepare(comm_, request_, on...)};
    } else {
      detail::Internals::perform(comm_, request_, on...);
    }
  }

  static std::size_t checked(const void* data, std::size_t count, bool needed, const char* name) {
    if (data || count == 0) return count;
    if (needed) throw Wrong{fmt::format("{} is NULL, but has {} elements", name, count)};
    return 0;
  }

  void set_parts(std::span<const std::size_t>& to, std::span<const std::size_t>& displaced, const std::uint64_t* counts,
                 const std::uint64_t* displacements, const char* name) const {
    const auto ranks = static_cast<std::size_t>(comm_.size());
    to = {&given(counts, name), ranks};
    if (displacements) displaced = {displacements, ranks};
  }

  /// It overflows only where a count or displacement is refused anyway.
  static std::size_t extent(std::span<const std::size_t> counts, std::span<const std::size_t> displacements) {
    std::size_t end = 0;
    for (std::size_t part = 0; part < counts.size(); ++part)
      if (counts[part] > 0)
        end = std::max(end, displacements.empty() ? end + counts[part] : displacements[part] + counts[part]);
    return end;
  }

  const tutti_call_options options_;
  Communicator& comm_;
  detail::Request request_;
  Op own_op_{OpKind::sum};
};

/// A call in which every rank has as many elements before as after it.
void whole(Call& call, const void* in, void* out, std::size_t count, tutti_op_kind op) {
  call.combine(op);
  call.input(in, count);
  call.output(out, count);
}

}  // namespace
}  // namespace tutti::c_api

using tutti::Collective;
using namespace tutti::c_api;

extern "C" {

tutti_result tutti_all_reduce(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                              tutti_op_kind op, const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::all_reduce, type, options};
    whole(call, in, out, count, op);
    call.perform();
  });
}

tutti_result tutti_reduce(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                          tutti_op_kind op, int32_t root, const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::reduce, type, options};
    call.combine(op);
    call.root(root);
    call.input(in, count);
    call.output(out, count, call.is_root());
    call.perform();
  });
}

tutti_result tutti_broadcast(tutti_comm* comm, void* data, uint64_t count, tutti_type type, int32_t root,
                             const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::broadcast, type, options};
    call.root(root);
    call.input(data, count);
    call.output(data, count);
    call.perform();
  });
}

tutti_result tutti_all_gather(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                              const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::all_gather, type, options};
    call.input(in, count);
    call.output(out, call.of_all(count));
    call.perform();
  });
}

tutti_result tutti_gather(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type, int32_t root,
                          const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::gather, type, options};
    call.root(root);
    call.input(in, count);
    call.output(out, call.of_all(count), call.is_root());
    call.perform();
  });
}

tutti_result tutti_reduce_scatter(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                  tutti_op_kind op, const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::reduce_scatter, type, options};
    call.combine(op);
    call.input(in, call.of_all(count));
    call.output(out, count);
    call.perform();
  });
}

tutti_result tutti_scatter(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type, int32_t root,
                           const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::scatter, type, options};
    call.root(root);
    call.input(in, call.of_all(count), call.is_root());
    call.output(out, count);
    call.perform();
  });
}

tutti_result tutti_all_to_all(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                              const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::all_to_all, type, options};
    call.input(in, call.of_all(count));
    call.output(out, call.of_all(count));
    call.perform();
  });
}

tutti_result tutti_scan(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type, tutti_op_kind op,
                        const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::scan, type, options};
    whole(call, in, out, count, op);
    call.perform();
  });
}

tutti_result tutti_exclusive_scan(tutti_comm* comm, const void* in, void* out, uint64_t count, tutti_type type,
                                  tutti_op_kind op, const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::exclusive_scan, type, options};
    call.combine(op);
    call.input(in, count);
    call.output(out, count, call.rank() > 0);
    call.perform();
  });
}

int32_t tutti_gpu_available(const char** why_not) {
  thread_local std::string reason;
  reason = tutti::gpu::why_not();
  if (why_not) *why_not = reason.c_str();
  return reason.empty() ? 1 : 0;
}

tutti_result tutti_barrier(tutti_comm* comm, const tutti_call_options* options) {
  return guarded(__func__, [&] { Call{comm, Collective::barrier, TUTTI_U8, options}.perform(); });
}

tutti_result tutti_all_gather_v(tutti_comm* comm, const void* in, void* out, const uint64_t* counts,
                                const uint64_t* displacements, tutti_type type, const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::all_gather, type, options};
    call.parts(counts, displacements, "counts");
    call.input(in, call.own_part());
    call.output(out, call.all_parts());
    call.perform();
  });
}

tutti_result tutti_gather_v(tutti_comm* comm, const void* in, void* out, const uint64_t* counts,
                            const uint64_t* displacements, tutti_type type, int32_t root,
                            const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::gather, type, options};
    call.parts(counts, displacements, "counts");
    call.root(root);
    call.input(in, call.own_part());
    call.output(out, call.all_parts(), call.is_root());
    call.perform();
  });
}

tutti_result tutti_reduce_scatter_v(tutti_comm* comm, const void* in, void* out, const uint64_t* counts,
                                    const uint64_t* displacements, tutti_type type, tutti_op_kind op,
                                    const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::reduce_scatter, type, options};
    call.combine(op);
    call.parts(counts, displacements, "counts");
    call.input(in, call.all_parts());
    call.output(out, call.own_part());
    call.perform();
  });
}

tutti_result tutti_scatter_v(tutti_comm* comm, const void* in, void* out, const uint64_t* counts,
                             const uint64_t* displacements, tutti_type type, int32_t root,
                             const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::scatter, type, options};
    call.parts(counts, displacements, "counts");
    call.root(root);
    call.input(in, call.all_parts(), call.is_root());
    call.output(out, call.own_part());
    call.perform();
  });
}

tutti_result tutti_all_to_all_v(tutti_comm* comm, const void* in, const uint64_t* send_counts,
                                const uint64_t* send_displacements, void* out, const uint64_t* recv_counts,
                                const uint64_t* recv_displacements, tutti_type type,
                                const tutti_call_options* options) {
  return guarded(__func__, [&] {
    Call call{comm, Collective::all_to_all, type, options};
    call.parts(send_counts, send_displacements, "send_counts");
    call.received_parts(recv_counts, recv_displacements);
    call.input(in, call.all_parts());
    call.output(out, call.all_received_parts());
    call.perform();
  });
}

}  // extern "C"
