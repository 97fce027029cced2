#include "cli/bench/names.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/collective_traits.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli::bench {
namespace {

struct Program {
  std::string_view name;
  std::string_view alias;
  Measured what;
  Collective collective;
};
constexpr Program programs[] = {
    {"all_reduce", "allreduce", Measured::all_reduce, Collective::all_reduce},
    {"all_gather", "allgather", Measured::all_gather, Collective::all_gather},
    {"reduce_scatter", "reducescatter", Measured::reduce_scatter, Collective::reduce_scatter},
    {"broadcast", "bcast", Measured::broadcast, Collective::broadcast},
    {"reduce", "", Measured::reduce, Collective::reduce},
    {"alltoall", "all_to_all", Measured::all_to_all, Collective::all_to_all},
    {"alltoallv", "all_to_all_v", Measured::all_to_all_v, Collective::all_to_all},
    {"gather", "", Measured::gather, Collective::gather},
    {"scatter", "", Measured::scatter, Collective::scatter},
    {"sendrecv", "send_recv", Measured::send_recv, Collective::barrier},
    {"barrier", "", Measured::barrier, Collective::barrier},
    {"scan", "", Measured::scan, Collective::scan},
    {"exclusive_scan", "exscan", Measured::exclusive_scan, Collective::exclusive_scan},
};

constexpr const Program& program_of(Measured what) { return programs[static_cast<std::size_t>(what)]; }
static_assert([] {
  for (std::size_t number = 0; number < std::size(programs); ++number)
    if (program_of(static_cast<Measured>(number)).what != static_cast<Measured>(number)) return false;
  for (const detail::CollectiveTraits& traits : detail::collective_traits)
    if (std::ranges::none_of(programs, [&](const Program& one) { return one.collective == traits.collective; }))
      return false;
  return true;
}());

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

std::string program_name(Measured what) { return std::string{program_of(what).name} + "_perf"; }

bool has_op(Measured what) { return detail::is_reduction(collective_of(what)); }

bool has_root(Measured what) { return detail::is_rooted(collective_of(what)); }

bool has_in_place(Measured what) {
  return what != Measured::all_to_all_v && what != Measured::send_recv && what != Measured::barrier;
}

Collective collective_of(Measured what) { return program_of(what).collective; }

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

}  // namespace tutti::cli::bench
