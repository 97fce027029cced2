#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "cli/plan/interchange/msccl.h"

namespace tutti::cli::interchange {

/// Chunks of an instruction: in 'i', 'o' or 's', or data that a fused instruction passes on without storing ('t').
struct ChunkRange {
  char buffer = 0;  ///< 0: no such operand
  int first = 0;
};

/// A part of an instruction, after fused ones have been taken apart: a verb, or nothing (a nop, which only waits).
struct Atom {
  int rank = 0;
  std::size_t block = 0;  ///< index of its thread block
  int step = 0;
  bool waits_only = false;
  algorithms::Verb verb = algorithms::Verb::copy;
  int peer = -1;
  int count = 0;  ///< chunks
  ChunkRange dst{}, left{}, right{};
  std::vector<std::size_t> after{};       ///< atoms of the rank that must be complete first
  std::size_t partner = ~std::size_t{0};  ///< the receive of a send, the send of a receive
};

/// All ranks' instructions.
struct Atoms {
  std::vector<Atom> all;
  std::vector<std::size_t> order;  ///< an executable order, with the messages of a link in one order at both ends
};

/// "rank 3 thread block 2 step 5"
std::string name_of(const MscclProgram& program, const Atom& atom);

/// Takes the program apart, pairs sends with receives, and runs it without data. Throws Error{invalid_argument} that
/// names rank, thread block and step if messages do not match or no step can proceed.
Atoms put_in_order(const MscclProgram& program);

}  // namespace tutti::cli::interchange
