#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lib/compute/gpu/table.h"

// Cases for the kernels of GPUs, with the result by compute::reference_table(). Three programs run the same ones: the
// kernels compiled for the host, their PTX in an interpreter, and their machine code on a GPU.

namespace tutti::testing {

/// A step of an op for elements of a type, of which there is a kernel.
struct Computation {
  DataType type;
  OpKind op;
  compute::gpu::Step step;
  std::string text() const;
};
/// Those of all types and ops, without the steps whose kernel is also that of `whole`.
std::vector<Computation> all_computations();

struct Form {
  int inputs = 1;
  int outputs = 1;
  std::uint64_t count = 1;
  unsigned shift = 0;     ///< elements between a multiple of 256 bytes and the first one
  bool in_place = false;  ///< the last output is the last input, if both hold elements of one size
  std::string text() const;
};

struct Case {
  const compute::gpu::Kernel* kernel = nullptr;
  compute::gpu::FoldArguments arguments{};   ///< addresses count from the memory's begin
  std::vector<unsigned char> before, after;  ///< all of the memory, also what lies around inputs and outputs
};
Case make_case(const Computation& computation, const Form& form, std::mt19937& random);

/// The same arguments for memory at `base`, a multiple of 256.
compute::gpu::FoldArguments at(compute::gpu::FoldArguments arguments, std::uint64_t base);

}  // namespace tutti::testing
