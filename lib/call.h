#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/black_box.h"
#include "transport/frame.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// What a rank asked for, as it travels in every frame and stands in error messages.
struct Call {
  Collective collective{};
  DataType type{};
  OpKind op{};
  int root = 0;
  std::uint64_t count = 0;      ///< elements, or a hash of the counts of a _v call
  std::uint32_t algorithm = 0;  ///< hash of the algorithm's name with parameters

  transport::Frame frame(std::uint64_t operation) const;
};

/// What `request`, checked, asks for.
Call call_of(const Request& request, int ranks, std::uint32_t algorithm);
/// Elements per rank of the side that has one part per rank, or of the vector.
std::size_t part_count(const Request& request, std::size_t ranks);
/// Of its elements: one of the sides may be nothing on this rank.
inline DataType type_of(const Request& request) {
  return request.collective == Collective::broadcast ? request.output.type : request.input.type;
}

/// True for the collectives that take an op.
bool is_reduction(Collective collective);
/// True for the collectives with a root.
bool is_rooted(Collective collective);

/// 32 bits that differ for different algorithms: ranks that tuned differently must notice.
std::uint32_t algorithm_hash(std::string_view name);
std::uint64_t counts_hash(std::span<const std::size_t> counts);

/// For the black box: all of it but the time.
inline black_box::Call recorded(const transport::Frame& frame, std::uint64_t group, std::uint64_t number,
                                const black_box::Label& algorithm, std::size_t steps, bool variable) {
  return {.group = group,
          .operation = number,
          .count = frame.count,
          .root = frame.root,
          .steps = static_cast<std::uint32_t>(steps),
          .collective = frame.collective,
          .type = frame.data_type,
          .op = frame.op,
          .variable = variable,
          .algorithm = algorithm};
}

/// "ring:2", or "direct in allocated memory".
std::string algorithm_text(std::string_view name, bool in_window);

/// `all_reduce #42 (1048576 x f32, sum)`: what a frame of a collective says.
std::string describe(const transport::Frame& frame);

}  // namespace tutti::detail
