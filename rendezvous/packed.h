#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

// Several values as one: each behind its length, a u32, little-endian.

std::string pack(std::span<const std::string> values);
/// Nothing if these are not values, or not `count`, where that is given.
std::optional<std::vector<std::string>> unpack(std::string_view all, std::optional<std::size_t> count = {});

}  // namespace tutti::rendezvous
