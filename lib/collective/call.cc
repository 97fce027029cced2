#include "lib/collective/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/base/hash.h"
#include "lib/failure/diagnosis.h"

namespace tutti::detail {

transport::Frame Call::frame(std::uint64_t operation) const {
  return {.kind = transport::FrameKind::data,
          .data_type = static_cast<std::uint8_t>(type),
          .operation = static_cast<std::uint32_t>(operation),
          .collective = static_cast<std::uint8_t>(collective),
          .op = static_cast<std::uint8_t>(op),
          .variable = variable,
          .root = root,
          .algorithm = algorithm,
          .window = window,
          .count = count};
}

std::uint32_t algorithm_hash(std::string_view name) {
  const std::uint64_t hash = fnv1a(name);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

std::uint64_t counts_hash(std::span<const std::size_t> counts) {
  return fnv1a({reinterpret_cast<const char*>(counts.data()), counts.size_bytes()});
}

std::uint64_t counts_word(std::span<const std::size_t> counts) {
  constexpr std::uint64_t most = (std::uint64_t{1} << counts_sum_bits) - 1;
  const std::uint64_t sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  return counts_hash(counts) << counts_sum_bits | std::min(sum, most);
}

std::string algorithm_text(std::string_view name, bool in_window) {
  return fmt::format("{}{}", name, in_window ? in_allocated_memory : "");
}

std::string describe(const transport::Frame& frame) {
  if (frame.collective >= collective_count || frame.data_type >= data_type_count) return "an unknown call";
  const auto collective = static_cast<Collective>(frame.collective);
  std::string text = fmt::format("{}{} #{}", name_of(collective), frame.variable ? "_v" : "", frame.operation);
  if (collective == Collective::barrier) return text;
  const char* const type = name_of(static_cast<DataType>(frame.data_type));
  if (is_exchange_of_counts(frame)) return text + fmt::format(" ({})", type);
  text += fmt::format(" ({} x {}{}", elements_of(frame.count, frame.variable), type, frame.variable ? " in all" : "");
  if (is_reduction(collective)) text += fmt::format(", {}", name_of(static_cast<OpKind>(frame.op)));
  if (is_rooted(collective)) text += fmt::format(", root {}", frame.root);
  return text + ")";
}

std::size_t part_count(const Request& request, std::size_t ranks) {
  const CollectiveTraits& traits = traits_of(request.collective);
  if (traits.scatters()) return request.output.count;
  return traits.exchanges() ? request.input.count / ranks : request.input.count;
}

Call call_of(const Request& request, int ranks, std::uint32_t algorithm, std::uint32_t window) {
  const Op& op = request.collective == Collective::barrier ? bor : request.op ? *request.op : sum;
  std::uint64_t count = part_count(request, static_cast<std::size_t>(ranks));
  if (request.variable) count = request.collective == Collective::all_to_all ? 0 : counts_word(request.counts);
  return {.collective = request.collective,
          .type = type_of(request),
          .op = op.kind(),
          .root = request.root,
          .count = count,
          .algorithm = algorithm,
          .window = window,
          .variable = request.variable};
}

}  // namespace tutti::detail
