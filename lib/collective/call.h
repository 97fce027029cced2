#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/collective_traits.h"
#include "lib/observe/black_box.h"
#include "transport/frame.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// What a rank asked for, as every frame carries it and error messages describe it.
struct Call {
  Collective collective{};
  DataType type{};
  OpKind op{};
  int root = 0;
  std::uint64_t count = 0;      ///< elements; for a _v call counts_word() of its counts
  std::uint32_t algorithm = 0;  ///< hash of the algorithm's name with parameters
  std::uint32_t window = 0;     ///< in allocated memory: hash of which
  bool variable = false;        ///< a _v call

  transport::Frame frame(std::uint64_t operation) const;
};

/// The call of a checked request.
Call call_of(const Request& request, int ranks, std::uint32_t algorithm, std::uint32_t window);
/// Elements of one part, or of the vector if there are no parts.
std::size_t part_count(const Request& request, std::size_t ranks);
/// The type of its elements; input or output may be missing on this rank.
inline DataType type_of(const Request& request) {
  return request.collective == Collective::broadcast ? request.output.type : request.input.type;
}

/// True for an all_to_all_v, in which each pair of ranks has its own count.
constexpr bool is_exchange_of_counts(const transport::Frame& frame) {
  return frame.variable && frame.collective == static_cast<std::uint8_t>(Collective::all_to_all);
}

/// A hash of the algorithm's name, by which ranks notice that they chose different algorithms.
std::uint32_t algorithm_hash(std::string_view name);
std::uint64_t counts_hash(std::span<const std::size_t> counts);

/// The counts of a _v call in one word: their sum in the lower bits, which errors can quote, and a hash of all of them
/// in the upper bits. In an all_to_all_v every rank knows only its own counts, so the word is 0.
inline constexpr int counts_sum_bits = 40;
std::uint64_t counts_word(std::span<const std::size_t> counts);
/// The number of elements for which the `count` of a frame or record stands.
constexpr std::uint64_t elements_of(std::uint64_t count, bool variable) {
  return variable ? count & ((std::uint64_t{1} << counts_sum_bits) - 1) : count;
}

/// The call for the black box, except the time.
inline black_box::CallRecord recorded(const transport::Frame& frame, std::uint64_t group, std::uint64_t number,
                                      const black_box::Label& algorithm, std::size_t parts, bool variable,
                                      bool on_board) {
  return {.group = group,
          .operation = number,
          .count = frame.count,
          .root = frame.root,
          .parts = static_cast<std::uint32_t>(parts),
          .collective = frame.collective,
          .type = frame.data_type,
          .op = frame.op,
          .flags = static_cast<std::uint8_t>((variable ? black_box::Flags::variable : 0) |
                                             (on_board ? black_box::Flags::on_board : 0)),
          .algorithm = algorithm};
}

/// "ring:2", or "direct_two_shot in allocated memory".
std::string algorithm_text(std::string_view name, bool in_window);

/// `all_reduce #42 (1048576 x f32, sum)`: a frame of a collective, in words.
std::string describe(const transport::Frame& frame);

}  // namespace tutti::detail
