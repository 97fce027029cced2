#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// CRC-32C (Castagnoli, RFC 3720) of `bytes`, or of these behind those whose CRC is `before`. By the processor's own
/// instruction where it has one.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
/// The same by a table, for every processor.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace tutti
