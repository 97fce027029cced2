#include "cli/tune/order.h"

#include <fmt/core.h>

#include "cli/measure/rank_sync.h"
#include "tutti/error.h"

namespace tutti::cli::tune {

void Order::add(const std::string& algorithm, int warm, int calls) {
  if (algorithm.size() >= name_room)
    throw Error{ErrorCode::unsupported,
                fmt::format("tune: the name {}... has more than {} letters", algorithm.substr(0, 40), name_room - 1)};
  Turn& turn = turns[count++];
  turn = {};
  algorithm.copy(turn.algorithm, name_room - 1);
  turn.warm = warm;
  turn.calls = calls;
}

bool Order::has_room(int calls) const {
  int stamps = calls;
  for (int i = 0; i < count; ++i) stamps += turns[i].calls;
  return count < most_turns && stamps <= measure::most_iterations;
}

}  // namespace tutti::cli::tune
