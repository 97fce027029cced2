// Ranks, steps and slots are ints, as in messages and options; what they are the subscripts of counts in std::size_t.

#pragma once

#include <cstddef>

namespace tutti {

/// `i` as a subscript; it is not negative.
constexpr std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }

}  // namespace tutti
