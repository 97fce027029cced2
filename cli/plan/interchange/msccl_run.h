#pragma once

#include <string>
#include <vector>

#include "cli/plan/interchange/msccl_order.h"

namespace tutti::cli::interchange {

/// The atoms in the order of the file, with the two ends of each message linked. Throws as put_in_order does.
std::vector<Atom> take_apart(const MscclProgram& program);

/// Throws Error{invalid_argument}: "rank 3 thread block 2 step 5 (rcs): WHY".
[[noreturn]] void refuse_step(const MscclProgram& program, const Atom& atom, const std::string& why);

}  // namespace tutti::cli::interchange
