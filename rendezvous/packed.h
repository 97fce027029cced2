#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

// Several values as one: each preceded by its length, a little-endian u32.

std::string pack(std::span<const std::string> values);
/// Nothing if `all` has another form, or not `count` values, if that is given.
std::optional<std::vector<std::string>> unpack(std::string_view all, std::optional<std::size_t> count = {});

}  // namespace tutti::rendezvous
