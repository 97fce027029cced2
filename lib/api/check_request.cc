// The checks of a call that need no message: shapes, ranges, overlap, types and ops.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "lib/api/buffer_checks.h"
#include "lib/api/communicator_state.h"
#include "lib/base/gpu/memory.h"
#include "lib/collective/call.h"
#include "lib/compute/kernels.h"

namespace tutti::detail {
namespace {

using Numbers = std::span<const std::size_t>;

class Checker {
 public:
  Checker(const Request& request, const Group& group)
      : request_(request), traits_(traits_of(request.collective)), group_(group) {}

  void run() const {
    if (request_.timeout.count() < 0) refuse(fmt::format("a timeout of {} ms is negative", request_.timeout.count()));
    if (request_.collective == Collective::barrier) return;
    if (traits_.is_rooted() && (request_.root < 0 || request_.root >= group_.size()))
      refuse(fmt::format("root {} is not a rank of this communicator; valid are 0 to {}", request_.root,
                         group_.size() - 1));
    check_sizes();
    if (traits_.in_place == InPlace::always) return;  // one buffer
    if (request_.variable) check_counts();
    check_shapes();
    check_overlap();
    if (traits_.reduces()) check_op();
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error{ErrorCode::invalid_argument, fmt::format("{}: {}", name_on_rank(request_, group_), why)};
  }

  std::size_t ranks() const { return static_cast<std::size_t>(group_.size()); }

  /// The part of each rank comes first, since its count is the one that programs give.
  void check_sizes() const {
    if (!traits_.scatters()) require_possible(traits_.input, request_.input);
    require_possible(traits_.output, request_.output);
    if (traits_.scatters()) require_possible(traits_.input, request_.input);
  }

  /// Some rank has the parts of all ranks in one buffer, unless their sizes differ.
  template <class AnyBuffer>
  void require_possible(const BufferTraits& traits, const AnyBuffer& buffer) const {
    const bool is_one_of_equal_parts = traits.extent == Extent::own_part && !request_.variable;
    if (has(traits) && buffer.count > largest_count / (is_one_of_equal_parts ? ranks() : 1))
      refuse(impossible(buffer.count, buffer.unit));
  }

  void check_counts() const {
    const auto require_size = [&](Numbers counts, const char* name) {
      if (counts.size() != ranks())
        refuse(
            fmt::format("{} has {} entries, but there are {} ranks: give one per rank", name, counts.size(), ranks()));
    };
    const bool exchange = traits_.exchanges();
    require_size(request_.counts, exchange ? "send_counts" : "counts");
    if (exchange) require_size(request_.recv_counts, "recv_counts");
    const auto own = static_cast<std::size_t>(group_.rank());
    if (exchange && request_.counts[own] != request_.recv_counts[own])
      refuse(
          fmt::format("send_counts[{0}] is {1} and recv_counts[{0}] is {2}, but what rank {0} sends to itself it "
                      "receives: give the same",
                      own, request_.counts[own], request_.recv_counts[own]));
    for (const auto counts : {request_.counts, request_.recv_counts})
      for (const std::size_t count : counts) require_possible(count, "count");
    if (!request_.displacements.empty()) require_size(request_.displacements, "displacements");
    if (!request_.recv_displacements.empty()) require_size(request_.recv_displacements, "recv_displacements");
    for (const auto displacements : {request_.displacements, request_.recv_displacements})
      for (const std::size_t displacement : displacements) require_possible(displacement, "displacement");
  }

  void require_possible(std::size_t number, const char* name) const {
    if (static_cast<std::ptrdiff_t>(number) < 0)
      refuse(fmt::format("a {} of {} is negative", name, static_cast<std::ptrdiff_t>(number)));
    if (number > std::numeric_limits<std::size_t>::max() / element() / ranks()) refuse(impossible(name, number));
  }

  /// Bytes of one of the caller's elements, in which `count` below is measured.
  std::size_t element() const { return size_of(request_.input.type) * request_.input.unit; }
  std::size_t in_count() const { return request_.input.count / request_.input.unit; }
  std::size_t out_count() const { return request_.output.count / request_.output.unit; }

  void require(std::string_view name, std::size_t found, std::size_t wanted, std::string_view because) const {
    if (found != wanted)
      refuse(fmt::format("{} has {} elements, but {} are needed ({})", name, found, wanted, because));
  }

  static std::size_t total(Numbers counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }
  /// A buffer that has one part per rank. Those of an output must not overlap.
  void require_parts(std::string_view name, std::size_t found, Numbers counts, Numbers displacements,
                     std::string_view because) const {
    if (displacements.empty()) return require(name, found, total(counts), because);
    std::vector<std::size_t> order;
    for (std::size_t part = 0; part < counts.size(); ++part)
      if (counts[part] > 0) order.push_back(part);
    for (const std::size_t part : order)
      if (displacements[part] > found || counts[part] > found - displacements[part])
        refuse(fmt::format("{} has {} elements, but part {} has {} from {} on (its count and displacement)", name,
                           found, part, counts[part], displacements[part]));
    if (name != "out") return;
    std::ranges::sort(order, {}, [&](std::size_t part) { return displacements[part]; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (displacements[order[i]] < displacements[order[i - 1]] + counts[order[i - 1]])
        refuse(fmt::format("parts {} and {} of out overlap (their displacements)", order[i - 1], order[i]));
  }

  bool has(const BufferTraits& buffer) const { return buffer.is_at(group_.rank(), request_.root); }

  void check_shapes() const {
    const std::size_t in = in_count();
    const std::size_t out = out_count();
    if (request_.variable) {
      const bool exchanges = traits_.exchanges();
      check_parts("in", in, traits_.input, request_.counts, request_.displacements,
                  exchanges ? "send_counts" : "counts");
      if (exchanges)
        return check_parts("out", out, traits_.output, request_.recv_counts, request_.recv_displacements,
                           "recv_counts");
      return check_parts("out", out, traits_.output, request_.counts, request_.displacements, "counts");
    }
    if (traits_.scatters()) {
      if (has(traits_.input)) require("in", in, out * ranks(), "one part per rank");
      return;
    }
    if (traits_.exchanges() && in % ranks() != 0)
      refuse(fmt::format("in has {} elements, which {} ranks cannot share equally; use all_to_all_v", in, ranks()));
    if (has(traits_.output))
      require("out", out, traits_.gathers() ? in * ranks() : in,
              traits_.gathers() ? "one part per rank" : "as many as in");
  }

  void check_parts(const char* name, std::size_t found, const BufferTraits& buffer, Numbers counts,
                   Numbers displacements, const char* name_of_counts) const {
    if (!has(buffer)) return;
    if (buffer.extent == Extent::own_part)
      require(name, found, counts[static_cast<std::size_t>(group_.rank())],
              fmt::format("this rank's entry of {}", name_of_counts));
    else
      require_parts(name, found, counts, displacements, fmt::format("the sum of {}", name_of_counts));
  }

  /// Where the other buffer would have to be for the call to be in place: bytes from the start of the larger one.
  std::size_t own_offset() const {
    const auto own = static_cast<std::size_t>(group_.rank());
    if (!request_.displacements.empty()) return request_.displacements[own] * element();
    if (!request_.variable) {
      return (traits_.gathers() ? in_count() : out_count()) * own * element();
    }
    return total(request_.counts.first(own)) * element();
  }

  void check_overlap() const {
    if (!has(traits_.input) || !has(traits_.output)) return;
    const auto* const in = static_cast<const std::byte*>(request_.input.data);
    const auto* const out = static_cast<const std::byte*>(request_.output.data);
    if (!overlap(in, in_count() * element(), out, out_count() * element())) return;
    if (traits_.exchanges() && request_.variable)
      refuse(
          "in and out overlap, and this call has no in-place form, since parts differ in size; give separate memory");
    const std::size_t in_skips = traits_.scatters() ? own_offset() : 0;
    const std::size_t out_skips = traits_.gathers() ? own_offset() : 0;
    if (in + in_skips != out + out_skips)
      refuse(
          "in and out overlap in a way that would overwrite input before it is used; give separate memory, or "
          "exactly the in-place form");
  }

  void check_op() const {
    if (!traits_.takes(request_.op->kind()))
      refuse("avg is the average over all ranks, and a scan has a result per rank; use sum, and divide by rank + 1");
    try {
      compute::require(request_.input.type, *request_.op);
    } catch (const Error& error) {
      throw Error{error.code(), fmt::format("{} on rank {} of {}: {}", name_of(request_.collective), group_.rank(),
                                            group_.size(), error.what())};
    }
  }

  const Request& request_;
  const CollectiveTraits& traits_;
  const Group& group_;
};

}  // namespace

bool uses_input(const Request& request, int rank) {
  return request.input.count > 0 && traits_of(request.collective).input.is_at(rank, request.root);
}

bool uses_output(const Request& request, int rank) {
  return request.output.count > 0 && traits_of(request.collective).output.is_at(rank, request.root);
}

std::string name_on_rank(const Request& request, const Group& group) {
  return fmt::format("{}{} on rank {} of {}", name_of(request.collective), request.variable ? "_v" : "", group.rank(),
                     group.size());
}

void check_request(const Request& request, const Group& group) { Checker{request, group}.run(); }

void refuse_device_memory(const Request& request, const Group& group) {
  const auto check = [&](const char* name, bool is_used, const void* data) {
    if (is_used && cuda::is_device_memory(data))
      throw Error{
          ErrorCode::invalid_argument,
          fmt::format("{}: {} is memory of a GPU ({}): give tutti::gpu::span(pointer, count), or in C on_device = 1",
                      name_on_rank(request, group), name, data)};
  };
  check("in", uses_input(request, group.rank()), request.input.data);
  check("out", uses_output(request, group.rank()), request.output.data);
}

}  // namespace tutti::detail
