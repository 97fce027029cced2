#pragma once

#include <cstdlib>
#include <string_view>

namespace tutti::testing {

/// Sanitizers slow everything down by a factor of ten or more, so there a sample replaces exhaustive tests.
inline bool only_a_sample() {
  const char* extent = std::getenv("TEST_MATRIX");
  return extent && std::string_view{extent} == "reduced";
}

}  // namespace tutti::testing
