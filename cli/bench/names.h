#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/types.h"

namespace tutti::cli::bench {

/// The operations that can be measured; nccl-tests has a program for each but the last three.
enum class Measured : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  all_to_all_v,
  gather,
  scatter,
  send_recv,
  barrier,
  scan,
  exclusive_scan,
};

/// Accepts "all_reduce" as well as "all_reduce_perf", "all_reduce_perf_mpi" and a path before them; "alltoall" and
/// "all_to_all". Throws Error{invalid_argument} that offers the nearest name, and {unsupported} for programs of
/// nccl-tests that tutti does not have.
Measured find_measured(std::string_view name);
/// The same for exactly these names; empty for any other.
std::optional<Measured> known_measured(std::string_view name);
/// Name of the program in nccl-tests: "alltoall_perf".
std::string program_name(Measured what);

bool has_op(Measured what);
bool has_root(Measured what);
/// False if the API has no form with one buffer.
bool has_in_place(Measured what);
/// The collective whose algorithms can be named, or `barrier` for send_recv, which has none.
Collective collective_of(Measured what);

struct NamedType {
  std::string_view name;  ///< nccl-tests' name, or ours in its style
  DataType type;
};
struct NamedOp {
  std::string_view name;
  OpKind op;
};

/// The type by nccl-tests' name ("float") or ours ("f32"); "all" gives the types that nccl-tests would run.
std::vector<NamedType> find_types(std::string_view name);
/// The same for "sum", "prod", "mulsum", "band", "all" ...
std::vector<NamedOp> find_ops(std::string_view name);

}  // namespace tutti::cli::bench
