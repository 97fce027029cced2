#include "rendezvous/packed.h"

#include <array>
#include <cstdint>

#include "lib/base/little_endian.h"

namespace tutti::rendezvous {

std::string pack(std::span<const std::string> values) {
  std::string all;
  for (const std::string& value : values) {
    std::array<std::byte, sizeof(std::uint32_t)> length;
    put(length.data(), static_cast<std::uint32_t>(value.size()));
    all.append(reinterpret_cast<const char*>(length.data()), length.size()).append(value);
  }
  return all;
}

std::optional<std::vector<std::string>> unpack(std::string_view all, std::optional<std::size_t> count) {
  std::vector<std::string> values;
  while (all.size() >= sizeof(std::uint32_t)) {
    const std::byte* at = reinterpret_cast<const std::byte*>(all.data());
    const std::size_t length = get<std::uint32_t>(at);
    all.remove_prefix(sizeof(std::uint32_t));
    if (length > all.size()) return std::nullopt;
    values.emplace_back(all.substr(0, length));
    all.remove_prefix(length);
  }
  if (!all.empty() || (count && values.size() != *count)) return std::nullopt;
  return values;
}

}  // namespace tutti::rendezvous
