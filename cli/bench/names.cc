#include "cli/bench/names.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/collective_traits.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli::bench {
namespace {

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

std::vector<MeasuredCall> measured_calls() {
  std::vector<MeasuredCall> calls{measure::all_calls.begin(), measure::all_calls.end()};
  std::erase(calls, measure::all_reduce_in_place);  // rows have both placements
  return calls;
}

MeasuredCall find_measured(std::string_view name) {
  std::string_view stem = name.substr(name.rfind('/') + 1);
  if (stem.ends_with("_mpi")) stem.remove_suffix(4);
  if (stem.ends_with("_perf")) stem.remove_suffix(5);
  if (stem == "hypercube")
    throw Error{ErrorCode::unsupported, "bench: hypercube is not a collective of tutti; see all_gather --algo bruck"};
  const std::optional<MeasuredCall> what = measure::find_call(stem);
  if (what && what != measure::all_reduce_in_place) return *what;
  std::vector<std::string_view> known;
  for (const MeasuredCall call : measured_calls()) known.push_back(name_of(call));
  unknown("collective", stem, known);
}

std::string program_name(MeasuredCall what) { return fmt::format("{}_perf", name_of(what)); }

bool has_op(MeasuredCall what) { return what.is_collective() && what.traits().reduces(); }

bool has_root(MeasuredCall what) { return what.is_collective() && what.traits().is_rooted(); }

bool has_in_place(MeasuredCall what) {
  return what.form == MeasuredCall::Form::usual && what.traits().input.extent != detail::Extent::nothing;
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

}  // namespace tutti::cli::bench
