// What can be said about a call before anything is sent: shapes, ranges, overlap, types and ops.

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "lib/call.h"
#include "lib/communicator_state.h"
#include "lib/compute/kernels.h"

namespace tutti::detail {
namespace {

class Checker {
 public:
  Checker(const Request& request, const Group& group) : request_(request), group_(group) {}

  void run() const {
    if (request_.timeout.count() < 0) refuse(fmt::format("a timeout of {} ms is negative", request_.timeout.count()));
    if (request_.collective == Collective::barrier) return;
    if (is_rooted(request_.collective) && (request_.root < 0 || request_.root >= group_.size()))
      refuse(fmt::format("root {} is not a rank of this communicator; valid are 0 to {}", request_.root,
                         group_.size() - 1));
    if (request_.variable) check_counts();
    check_shapes();
    check_overlap();
    if (is_reduction(request_.collective)) check_op();
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{}{} on rank {} of {}: {}", name_of(request_.collective), request_.variable ? "_v" : "",
                            group_.rank(), group_.size(), why)};
  }

  std::size_t ranks() const { return static_cast<std::size_t>(group_.size()); }
  bool at_root() const { return group_.rank() == request_.root; }

  void check_counts() const {
    const auto require_size = [&](std::span<const std::size_t> counts, const char* name) {
      if (counts.size() != ranks())
        refuse(
            fmt::format("{} has {} entries, but there are {} ranks: give one per rank", name, counts.size(), ranks()));
    };
    const bool exchange = request_.collective == Collective::all_to_all;
    require_size(request_.counts, exchange ? "send_counts" : "counts");
    if (exchange) require_size(request_.recv_counts, "recv_counts");
    const std::size_t most = std::numeric_limits<std::size_t>::max() / size_of(request_.input.type) / ranks();
    for (const auto counts : {request_.counts, request_.recv_counts})
      for (const std::size_t count : counts)
        if (count > most) refuse(fmt::format("a count of {} elements is more than any memory holds", count));
  }

  void require(const char* side, std::size_t found, std::size_t wanted, const char* because) const {
    if (found != wanted)
      refuse(fmt::format("{} has {} elements, but {} are needed ({})", side, found, wanted, because));
  }

  static std::size_t total(std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  std::size_t own_count() const { return request_.counts[static_cast<std::size_t>(group_.rank())]; }

  void check_shapes() const {
    const std::size_t in = request_.input.count;
    const std::size_t out = request_.output.count;
    const bool v = request_.variable;
    switch (request_.collective) {
      case Collective::all_reduce:
        return require("out", out, in, "as many as in");
      case Collective::reduce:
        if (at_root()) require("out", out, in, "as many as in");
        return;
      case Collective::all_gather:
      case Collective::gather:
        if (v) require("in", in, own_count(), "this rank's entry of counts");
        if (request_.collective == Collective::gather && !at_root()) return;
        return require("out", out, v ? total(request_.counts) : in * ranks(),
                       v ? "the sum of counts" : "one part per rank");
      case Collective::reduce_scatter:
      case Collective::scatter:
        if (v) require("out", out, own_count(), "this rank's entry of counts");
        if (request_.collective == Collective::scatter && !at_root()) return;
        return require("in", in, v ? total(request_.counts) : out * ranks(),
                       v ? "the sum of counts" : "one part per rank");
      case Collective::all_to_all:
        if (v) {
          require("in", in, total(request_.counts), "the sum of send_counts");
          return require("out", out, total(request_.recv_counts), "the sum of recv_counts");
        }
        if (in % ranks() != 0)
          refuse(fmt::format("in has {} elements, which {} ranks cannot share equally; use all_to_all_v", in, ranks()));
        return require("out", out, in, "as many as in");
      case Collective::broadcast:
      case Collective::barrier:
        return;
    }
  }

  /// Where the other side would have to lie for the call to be in place: bytes from the start of the larger side.
  std::size_t own_offset(std::size_t element) const {
    if (!request_.variable) {
      const bool gathers = request_.collective == Collective::all_gather || request_.collective == Collective::gather;
      const std::size_t part = gathers ? request_.input.count : request_.output.count;
      return part * static_cast<std::size_t>(group_.rank()) * element;
    }
    return total(request_.counts.first(static_cast<std::size_t>(group_.rank()))) * element;
  }

  void check_overlap() const {
    const std::size_t element = size_of(request_.input.type);
    const auto in = reinterpret_cast<std::uintptr_t>(request_.input.data);
    const auto out = reinterpret_cast<std::uintptr_t>(request_.output.data);
    const std::uintptr_t in_end = in + request_.input.count * element;
    const std::uintptr_t out_end = out + request_.output.count * element;
    if (in_end <= out || out_end <= in || in == in_end || out == out_end) return;
    bool allowed = false;
    switch (request_.collective) {
      case Collective::broadcast:
        return;
      case Collective::reduce:
        if (!at_root()) return;
        [[fallthrough]];
      case Collective::all_reduce:
        allowed = in == out;
        break;
      case Collective::all_to_all:
        allowed = in == out && !request_.variable;
        break;
      case Collective::gather:
        if (!at_root()) return;
        [[fallthrough]];
      case Collective::all_gather:
        allowed = in == out + own_offset(element);
        break;
      case Collective::scatter:
        if (!at_root()) return;
        [[fallthrough]];
      case Collective::reduce_scatter:
        allowed = out == in + own_offset(element);
        break;
      case Collective::barrier:
        return;
    }
    if (!allowed)
      refuse(
          "in and out overlap in a way that would overwrite input before it is used; give separate memory, or "
          "exactly the in-place form");
  }

  void check_op() const {
    try {
      compute::require(request_.input.type, *request_.op);
    } catch (const Error& error) {
      throw Error{error.code(), fmt::format("{} on rank {} of {}: {}", name_of(request_.collective), group_.rank(),
                                            group_.size(), error.what())};
    }
  }

  const Request& request_;
  const Group& group_;
};

}  // namespace

void check_request(const Request& request, const Group& group) { Checker{request, group}.run(); }

}  // namespace tutti::detail
