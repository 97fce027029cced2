#include "rendezvous/limits.h"

#include <fmt/format.h>

#include "tutti/error.h"

namespace tutti::rendezvous {

void check_key(std::string_view key) {
  constexpr std::size_t most = max_key_bytes - 1;  // over TCP a "/" is added in front
  if (key.size() > most)
    throw Error{ErrorCode::invalid_argument, fmt::format("store key \"{}...\" has {} bytes; at most {} are allowed.",
                                                         key.substr(0, 32), key.size(), most)};
}

void check_value(std::string_view key, std::string_view value) {
  check_key(key);
  if (value.size() > max_value_bytes)
    throw Error{
        ErrorCode::invalid_argument,
        fmt::format("store value of key \"{}\" has {} bytes; at most {} are allowed. A store is for addresses and "
                    "the like; send data with a collective.",
                    key, value.size(), max_value_bytes)};
}

}  // namespace tutti::rendezvous
