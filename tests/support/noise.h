#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace tutti::testing {

/// Numbers whose sums depend on the order in which they are added.
inline std::vector<float> noise(std::size_t count, int seed) {
  std::mt19937 generator{static_cast<unsigned>(seed)};
  std::uniform_real_distribution<float> values{-1e6F, 1e6F};
  std::vector<float> result(count);
  for (float& value : result) value = values(generator);
  return result;
}

}  // namespace tutti::testing
