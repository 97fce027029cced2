#include "cli/measure/call.h"

#include <algorithm>
#include <string>

namespace tutti::cli::measure {
namespace {

std::string without_underscores(std::string_view name) {
  std::string letters{name};
  std::erase(letters, '_');
  return letters;
}

}  // namespace

std::string_view name_of(MeasuredCall call) {
  switch (call.form) {
    case MeasuredCall::Form::in_place:
      return "all_reduce_inplace";
    case MeasuredCall::Form::variable:
      return "alltoallv";
    case MeasuredCall::Form::messages:
      return "sendrecv";
    case MeasuredCall::Form::usual:
      break;
  }
  return call.collective == Collective::all_to_all ? "alltoall" : call.traits().name;
}

std::optional<MeasuredCall> find_call(std::string_view name) {
  if (name == "bcast") return Collective::broadcast;  // MPI's names
  if (name == "exscan") return Collective::exclusive_scan;
  const auto* const found = std::ranges::find_if(
      all_calls, [&](MeasuredCall call) { return without_underscores(name_of(call)) == without_underscores(name); });
  if (found == all_calls.end()) return {};
  return *found;
}

}  // namespace tutti::cli::measure
