#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "lib/base/collective_traits.h"

namespace tutti::cli::measure {

/// A call that can be measured: a collective, or what only the tools tell apart from it.
struct MeasuredCall {
  enum class Form : std::uint8_t {
    usual,
    in_place,  ///< of all_reduce only, which is compared with other libraries in both ways
    variable,  ///< all_to_all_v
    messages,  ///< no collective: to the next rank, from the one before, both at once
  };
  Collective collective = Collective::barrier;
  Form form = Form::usual;

  constexpr MeasuredCall() = default;
  constexpr MeasuredCall(Collective which, Form how = Form::usual) : collective(which), form(how) {}
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison with 0 for one with a pointer
  constexpr auto operator<=>(const MeasuredCall&) const = default;

  constexpr bool is_collective() const { return form != Form::messages; }
  constexpr const detail::CollectiveTraits& traits() const { return detail::traits_of(collective); }
};

inline constexpr MeasuredCall all_reduce_in_place{Collective::all_reduce, MeasuredCall::Form::in_place};
inline constexpr MeasuredCall all_to_all_v{Collective::all_to_all, MeasuredCall::Form::variable};
inline constexpr MeasuredCall send_recv{Collective::barrier, MeasuredCall::Form::messages};

constexpr bool is_all_reduce(MeasuredCall call) {
  return call == Collective::all_reduce || call == all_reduce_in_place;
}

/// All of them, the collectives first.
inline constexpr auto all_calls = [] {
  constexpr MeasuredCall others[] = {all_reduce_in_place, all_to_all_v, send_recv};
  std::array<MeasuredCall, std::size(detail::collective_traits) + std::size(others)> calls;
  auto next = calls.begin();
  for (const detail::CollectiveTraits& traits : detail::collective_traits) *next++ = traits.collective;
  for (const MeasuredCall& call : others) *next++ = call;
  return calls;
}();

/// As nccl-tests spells them: "alltoall", "sendrecv"; and "all_reduce_inplace".
std::string_view name_of(MeasuredCall call);
/// By that name, or another usual one: "allreduce", "all_to_all", "bcast".
std::optional<MeasuredCall> find_call(std::string_view name);

}  // namespace tutti::cli::measure
