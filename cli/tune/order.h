#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/measure/call.h"

namespace tutti::cli::tune {

/// Room for the name of an algorithm and the zero behind it: domains are written as lists of ranks.
inline constexpr std::size_t name_room = 1024;

/// One algorithm's turn: `calls` calls, timed one by one after an alignment each, or together.
struct Turn {
  char algorithm[name_room] = {};
  int warm = 1;  ///< calls before, not timed
  int calls = 1;
};
inline constexpr int most_turns = 64;

/// The next work of all ranks: turns, one after the other without a stop, since waking ranks takes longer than many
/// calls.
struct Order {
  enum class Kind : std::uint8_t { measure, ask_choice, leave };
  Kind kind = Kind::measure;
  measure::MeasuredCall call;
  std::size_t bytes = 0;
  bool loop = false;  ///< the calls of a turn are timed together
  int count = 0;
  Turn turns[most_turns];

  /// Throws Error{unsupported} if the name is too long.
  void add(const std::string& algorithm, int warm, int calls);
  /// There is room for another turn with `calls` calls.
  bool has_room(int calls) const;
};

}  // namespace tutti::cli::tune
