#include "lib/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tutti {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // Castagnoli's, bits reversed

constexpr std::array<std::uint32_t, 256> make_remainders() {
  std::array<std::uint32_t, 256> remainders{};
  for (std::uint32_t byte = 0; byte < remainders.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (polynomial & (0U - (crc & 1)));
    remainders[byte] = crc;
  }
  return remainders;
}
constexpr auto byte_remainders = make_remainders();

using Update = std::uint32_t (*)(const std::byte* at, std::size_t size, std::uint32_t crc);

std::uint32_t update_by_table(const std::byte* at, std::size_t size, std::uint32_t crc) {
  for (; size > 0; --size, ++at) crc = (crc >> 8) ^ byte_remainders[(crc ^ static_cast<std::uint8_t>(*at)) & 0xff];
  return crc;
}

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)

[[gnu::target("sse4.2")]] std::uint32_t update_by_instruction(const std::byte* at, std::size_t size,
                                                              std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; size >= 8; size -= 8, at += 8) wide = __builtin_ia32_crc32di(wide, word_at(at));
  crc = static_cast<std::uint32_t>(wide);
  for (; size > 0; --size, ++at) crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(*at));
  return crc;
}

Update choose() { return __builtin_cpu_supports("sse4.2") ? update_by_instruction : update_by_table; }

#elif defined(__aarch64__)

[[gnu::target("+crc")]] std::uint32_t update_by_instruction(const std::byte* at, std::size_t size, std::uint32_t crc) {
  for (; size >= 8; size -= 8, at += 8) crc = __builtin_aarch64_crc32cx(crc, word_at(at));
  for (; size > 0; --size, ++at) crc = __builtin_aarch64_crc32cb(crc, static_cast<std::uint8_t>(*at));
  return crc;
}

Update choose() {
  constexpr unsigned long has_crc32 = 1UL << 7;
  return (getauxval(AT_HWCAP) & has_crc32) != 0 ? update_by_instruction : update_by_table;
}

#else

Update choose() { return update_by_table; }

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static const Update update = choose();
  return ~update(bytes.data(), bytes.size(), ~before);
}

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before) {
  return ~update_by_table(bytes.data(), bytes.size(), ~before);
}

}  // namespace tutti
