#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti::cli::measure {

/// The mean of the two values in the middle if their number is even; 0 if there are none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace tutti::cli::measure
