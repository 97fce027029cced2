#include "tools/bench_names.h"

#include <fmt/core.h>

#include "lib/base/nearest.h"
#include "tutti/error.h"

namespace tutti::tools::bench {
namespace {

struct Program {
  std::string_view name;
  std::string_view alias;
  Measured what;
};
constexpr Program programs[] = {
    {"all_reduce", "allreduce", Measured::all_reduce},
    {"all_gather", "allgather", Measured::all_gather},
    {"reduce_scatter", "reducescatter", Measured::reduce_scatter},
    {"broadcast", "bcast", Measured::broadcast},
    {"reduce", "", Measured::reduce},
    {"alltoall", "all_to_all", Measured::all_to_all},
    {"alltoallv", "all_to_all_v", Measured::all_to_all_v},
    {"gather", "", Measured::gather},
    {"scatter", "", Measured::scatter},
    {"sendrecv", "send_recv", Measured::send_recv},
    {"barrier", "", Measured::barrier},
};

// In nccl-tests' order; those after `bfloat16` are ours.
constexpr NamedType types[] = {
    {"int8", DataType::i8},       {"uint8", DataType::u8},      {"int32", DataType::i32},
    {"uint32", DataType::u32},    {"int64", DataType::i64},     {"uint64", DataType::u64},
    {"half", DataType::f16},      {"float", DataType::f32},     {"double", DataType::f64},
    {"bfloat16", DataType::bf16}, {"int16", DataType::i16},     {"uint16", DataType::u16},
    {"bool", DataType::boolean},  {"complex64", DataType::c64}, {"complex128", DataType::c128},
};
constexpr std::size_t types_there = 10;

constexpr NamedOp ops[] = {
    {"sum", OpKind::sum},   {"prod", OpKind::product}, {"max", OpKind::max},
    {"min", OpKind::min},   {"avg", OpKind::avg},      {"mulsum", OpKind::premul_sum},
    {"band", OpKind::band}, {"bor", OpKind::bor},      {"bxor", OpKind::bxor},
};
constexpr std::size_t ops_there = 6;

[[noreturn]] void unknown(std::string_view kind, std::string_view name, const std::vector<std::string_view>& known) {
  std::string all;
  for (const std::string_view one : known) all += fmt::format("{}{}", all.empty() ? "" : ", ", one);
  throw Error{ErrorCode::invalid_argument,
              fmt::format("bench: no {} \"{}\".{} Known are {}", kind, name, did_you_mean(name, known), all)};
}

}  // namespace

std::optional<Measured> known_measured(std::string_view name) {
  for (const Program& program : programs)
    if (!name.empty() && (name == program.name || name == program.alias)) return program.what;
  return {};
}

Measured find_measured(std::string_view name) {
  std::string_view stem = name.substr(name.rfind('/') + 1);
  if (stem.ends_with("_mpi")) stem.remove_suffix(4);
  if (stem.ends_with("_perf")) stem.remove_suffix(5);
  if (stem == "hypercube")
    throw Error{ErrorCode::unsupported, "bench: hypercube is not a collective of tutti; see all_gather --algo bruck"};
  if (const auto what = known_measured(stem)) return *what;
  std::vector<std::string_view> known;
  for (const Program& program : programs) known.push_back(program.name);
  unknown("collective", stem, known);
}

std::string program_name(Measured what) {
  for (const Program& program : programs)
    if (program.what == what) return std::string{program.name} + "_perf";
  return "unknown_perf";
}

bool has_op(Measured what) {
  return what == Measured::all_reduce || what == Measured::reduce || what == Measured::reduce_scatter;
}

bool has_root(Measured what) {
  return what == Measured::broadcast || what == Measured::reduce || what == Measured::gather ||
         what == Measured::scatter;
}

bool has_in_place(Measured what) {
  return what != Measured::all_to_all_v && what != Measured::send_recv && what != Measured::barrier;
}

Collective collective_of(Measured what) {
  switch (what) {
    case Measured::all_reduce:
      return Collective::all_reduce;
    case Measured::all_gather:
      return Collective::all_gather;
    case Measured::reduce_scatter:
      return Collective::reduce_scatter;
    case Measured::broadcast:
      return Collective::broadcast;
    case Measured::reduce:
      return Collective::reduce;
    case Measured::all_to_all:
    case Measured::all_to_all_v:
      return Collective::all_to_all;
    case Measured::gather:
      return Collective::gather;
    case Measured::scatter:
      return Collective::scatter;
    case Measured::send_recv:
    case Measured::barrier:
      return Collective::barrier;
  }
  return Collective::barrier;
}

std::vector<NamedType> find_types(std::string_view name) {
  if (name == "all") return {types, types + types_there};
  if (name == "f8e4m3" || name == "f8e5m2")
    throw Error{ErrorCode::unsupported, fmt::format("bench: tutti has no 8-bit floating type {}", name)};
  std::vector<std::string_view> known;
  for (const NamedType& one : types) {
    if (name == one.name || name == name_of(one.type)) return {one};
    known.push_back(one.name);
  }
  unknown("data type", name, known);
}

std::vector<NamedOp> find_ops(std::string_view name) {
  if (name == "all") return {ops, ops + ops_there};
  std::vector<std::string_view> known;
  for (const NamedOp& one : ops) {
    if (name == one.name || name == name_of(one.op)) return {one};
    known.push_back(one.name);
  }
  unknown("operation", name, known);
}

}  // namespace tutti::tools::bench
