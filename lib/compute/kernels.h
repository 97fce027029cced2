#pragma once

#include <string_view>
#include <vector>

#include "lib/compute/table.h"
#include "tutti/types.h"

// Element-wise arithmetic of reductions. The same loops are compiled for several instruction sets and chosen at run
// time by a table of our own; kernels_reference.cc holds the plain version that all of them must equal, bit for bit.
//
//   integers    wrap around; averages are exact, rounded towards zero
//   bool        sum and max are or, product and min are and; any byte but 0 counts as true, results are 0 or 1
//   f16, bf16   widen to float, one rounding (nearest even) per combine; min and max are exact
//   complex     (a + bi)(c + di) = (ac - bd) + (ad + bc)i, without the infinity rules of C's annex G
//   NaN         sum, product, min and max with a NaN, or without a result, give the NaN with all bits set
//   zeros       min(-0, +0) = -0, max(-0, +0) = +0
//
// So every op gives the same bits whichever side an operand stands on and whatever the processor: ranks of different
// machines agree. (No operation is fused: the kernels are compiled with -ffp-contract=off.)

namespace tutti::compute {

/// True for sum and product of every type; min and max of all but complex; band, bor and bxor of integers and bool; avg
/// of all but bool; premul_sum of floating and complex types. `user` is not a kernel and always true.
bool supports(DataType type, OpKind kind);

/// Throws Error{unsupported} that names the pair and what the type offers instead; for a user op written for another
/// element type Error{invalid_argument}.
void require(DataType type, const Op& op);

/// The table called "generic", "avx2", "avx512" or "avx512fp16" (the values of TUTTI_ISA; the last is avx512, but adds
/// and multiplies f16 as it is), or for an empty name the best one this processor can run. Throws
/// Error{invalid_argument} for an unknown name, {unsupported} for a known one that the processor lacks.
const Table& choose_table(std::string_view isa = {});

/// All tables that this processor can run, the best one last.
std::vector<const Table*> available_tables();

/// The plain loops that the others are tested against.
const Table& reference_table();

inline const Kernels& kernels(const Table& table, DataType type) { return table.of[static_cast<int>(type)]; }
/// Both null where supports() is false, and for avg.
inline Combine combine(const Table& table, DataType type, OpKind kind) {
  return kernels(table, type).combine[static_cast<int>(kind)];
}
inline Fold fold(const Table& table, DataType type, OpKind kind) {
  return kernels(table, type).fold[static_cast<int>(kind)];
}

/// A result of this size would leave the caches before it could be read again. It is written past them, with two thirds
/// of the traffic, since a line that is overwritten as a whole need not be read first.
constexpr bool streams(std::size_t result_bytes) { return result_bytes >= std::size_t{16} << 20; }

}  // namespace tutti::compute
