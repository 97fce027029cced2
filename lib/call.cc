#include "lib/call.h"

#include <fmt/format.h>

#include "lib/base/hash.h"

namespace tutti::detail {

bool is_reduction(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

bool is_rooted(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce || collective == Collective::scatter ||
         collective == Collective::gather;
}

transport::Frame Call::frame(std::uint64_t operation) const {
  return {.kind = transport::FrameKind::data,
          .collective = static_cast<std::uint8_t>(collective),
          .data_type = static_cast<std::uint8_t>(type),
          .op = static_cast<std::uint8_t>(op),
          .operation = static_cast<std::uint32_t>(operation),
          .root = root,
          .algorithm = algorithm,
          .count = count};
}

std::uint32_t algorithm_hash(std::string_view name) {
  const std::uint64_t hash = fnv1a(name);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

std::uint64_t counts_hash(std::span<const std::size_t> counts) {
  return fnv1a({reinterpret_cast<const char*>(counts.data()), counts.size_bytes()});
}

std::string algorithm_text(std::string_view name, bool in_window) {
  return fmt::format("{}{}", name, in_window ? " in allocated memory" : "");
}

std::string describe(const transport::Frame& frame) {
  if (frame.collective >= collective_count || frame.data_type >= data_type_count) return "an unknown call";
  const auto collective = static_cast<Collective>(frame.collective);
  std::string text = fmt::format("{} #{}", name_of(collective), frame.operation);
  if (collective == Collective::barrier) return text;
  text += fmt::format(" ({} x {}", frame.count, name_of(static_cast<DataType>(frame.data_type)));
  if (is_reduction(collective)) text += fmt::format(", {}", name_of(static_cast<OpKind>(frame.op)));
  if (is_rooted(collective)) text += fmt::format(", root {}", frame.root);
  return text + ")";
}

std::size_t part_count(const Request& request, std::size_t ranks) {
  switch (request.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return request.input.count;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return request.output.count;
    case Collective::all_to_all:
      return request.input.count / ranks;
    default:
      return request.input.count;
  }
}

Call call_of(const Request& request, int ranks, std::uint32_t algorithm) {
  const Op& op = request.collective == Collective::barrier ? bor : request.op ? *request.op : sum;
  std::uint64_t count = part_count(request, static_cast<std::size_t>(ranks));
  // Of an all_to_all_v every rank knows only its own counts.
  if (request.variable) count = request.collective == Collective::all_to_all ? 0 : counts_hash(request.counts);
  return {request.collective, type_of(request), op.kind(), request.root, count, algorithm};
}

}  // namespace tutti::detail
