#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// Addresses about which something was found out that need not be found out again. Each is remembered until another one
/// needs its place. Null is always one of them.
class KnownAddresses {
 public:
  bool has(const void* address) const noexcept { return places_[place_of(address)] == address; }
  void add(const void* address) noexcept { places_[place_of(address)] = address; }

 private:
  static constexpr unsigned bits = 6;

  /// Two buffers of a call often begin at the same place of a page, and must not push each other out for that. So the
  /// place depends on all bits of the address: it is multiplied by 2^64 / golden ratio.
  static std::size_t place_of(const void* address) noexcept {
    return (std::uint64_t{reinterpret_cast<std::uintptr_t>(address)} * 0x9e37'79b9'7f4a'7c15) >> (64 - bits);
  }

  std::array<const void*, std::size_t{1} << bits> places_{};
};

}  // namespace tutti
