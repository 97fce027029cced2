#pragma once

#include <cstdlib>
#include <string_view>

namespace tutti::testing {

/// Sanitizers slow everything down by ten or more: there a sample stands for what is otherwise tried exhaustively.
inline bool only_a_sample() {
  const char* extent = std::getenv("TEST_MATRIX");
  return extent && std::string_view{extent} == "reduced";
}

}  // namespace tutti::testing
