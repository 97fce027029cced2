#include "lib/base/known_addresses.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace tutti {
namespace {

const void* pointer(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

constexpr std::uintptr_t first_address = 0x7f12'3456'0010;  // where malloc() places large blocks in a page

TEST_CASE("known addresses: those that were added") {
  KnownAddresses known;
  CHECK(!known.has(pointer(first_address)));
  known.add(pointer(first_address));
  CHECK(known.has(pointer(first_address)));
  CHECK(!known.has(pointer(first_address + 1)));
  CHECK(known.has(nullptr));
  for (std::uintptr_t other = 1; other <= 10'000; ++other) known.add(pointer(first_address + 64 * other));
  CHECK(!known.has(pointer(first_address)));  // pushed out
}

TEST_CASE("known addresses: two buffers that begin at the same place of their pages are mostly both known") {
  int pairs = 0, forgotten = 0;
  for (std::uintptr_t apart = 0x1000; apart <= 0x1000'0000; apart *= 2) {
    for (std::uintptr_t k = 1; k <= 15; k += 2, ++pairs) {
      KnownAddresses known;
      known.add(pointer(first_address));
      known.add(pointer(first_address + k * apart));
      if (!known.has(pointer(first_address))) ++forgotten;
    }
  }
  CHECK(forgotten <= pairs / 16);
}

}  // namespace
}  // namespace tutti
