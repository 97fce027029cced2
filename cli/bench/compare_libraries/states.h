#pragma once

#include <cstdint>
#include <span>
#include <string_view>

// Where the hypervisor had placed the two cores while a row was measured, as shown by the round trip of a cache line.

namespace tutti::cli::versus {

struct Row;

/// Figures differ by a factor of 2 to 4 between near and far, so only rows of one state are compared. `mixed`: the
/// state changed during the row, which is not used. `alone`: a machine with one core.
enum class State : std::uint8_t { near, far, alone, mixed };
std::string_view name_of(State state);

/// Sets the state of each row. The limit between near and far differs from machine to machine and is derived from the
/// round trips of all rows; if they are similar, all are near.
void tell_states(std::span<Row> rows);

/// Near or far, whichever has more rows.
State usual_state(std::span<const Row> rows);

}  // namespace tutti::cli::versus
