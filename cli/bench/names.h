#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/call.h"
#include "tutti/types.h"

namespace tutti::cli::bench {

using measure::MeasuredCall;

/// Accepts "all_reduce" as well as "all_reduce_perf", "all_reduce_perf_mpi" and a path before them; "alltoall" and
/// "all_to_all". Throws Error{invalid_argument} that offers the nearest name, and {unsupported} for programs of
/// nccl-tests that tutti does not have.
MeasuredCall find_measured(std::string_view name);
/// All that it finds: collectives, all_to_all_v and send_recv.
std::vector<MeasuredCall> measured_calls();
/// Name of the program in nccl-tests: "alltoall_perf".
std::string program_name(MeasuredCall what);

bool has_op(MeasuredCall what);
bool has_root(MeasuredCall what);
/// False if the API has no form with one buffer.
bool has_in_place(MeasuredCall what);

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
