#pragma once

#include <cstddef>
#include <string_view>

namespace tutti::rendezvous {

// The limits of a store, the same as PyTorch's server's: larger values are refused before anything is sent or
// allocated.
inline constexpr std::size_t max_key_bytes = 8u << 10;
inline constexpr std::size_t max_value_bytes = 8u << 20;
inline constexpr std::size_t max_keys_per_request = 131'072;

/// Throw Error{invalid_argument}.
void check_key(std::string_view key);
void check_value(std::string_view key, std::string_view value);

}  // namespace tutti::rendezvous
