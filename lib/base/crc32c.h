#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

/// CRC-32C (Castagnoli, RFC 3720) of `bytes`, or of these after bytes whose CRC is `before`. Uses the processor's
/// instruction if there is one.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
/// The same by a table, for every processor.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace tutti
