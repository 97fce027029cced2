#pragma once

#include <cstdint>
#include <span>
#include <string_view>

// Where the hypervisor had the two cores while a row was measured, told by the round trip of a cache line around it.

namespace tutti::cli::versus {

struct Row;

/// Figures differ by a factor of 2 to 4 between near and far, so only rows of one state are compared. `mixed` changed
/// meanwhile and counts nowhere; `alone` is a machine of one core.
enum class State : std::uint8_t { near, far, alone, mixed };
std::string_view name_of(State state);

/// Writes into each row the state that it is of. What is near and what far differs from machine to machine, so all
/// rows' round trips say where the one ends and the other begins; if they are much alike, all are near.
void tell_states(std::span<Row> rows);

/// Near or far, whichever has more rows.
State usual_state(std::span<const Row> rows);

}  // namespace tutti::cli::versus
