#pragma once

#include <cstdint>

// Kernels for tests of the driver's interface, as PTX, which any driver compiles for its GPU. What they do on the host,
// for the fake driver, is in small_kernels.cc; a test calls give_small_kernels() first.

namespace tutti::testing {

/// to[i] = from[i] + add, for unsigned numbers of 4 bytes.
struct AddArguments {
  std::uint64_t to;
  std::uint64_t from;
  std::uint64_t count;
  std::uint32_t add;
  std::uint32_t unused = 0;
};
/// Runs for so long.
struct SpendArguments {
  std::uint64_t nanoseconds;
};
/// Stores the value so that a reader that sees it sees all before it.
struct StoreArguments {
  std::uint64_t word;
  std::uint64_t value;
};

/// With entries `small_add`, `small_spend` and `small_store`; the file SMALL_KERNELS, if that is set, which has them
/// compiled for one GPU (a driver may lack its compiler).
const void* small_kernels();

/// Gives the fake driver these kernels. Does nothing where the driver is a real one. Returns whether it is the fake.
bool give_small_kernels();

}  // namespace tutti::testing
