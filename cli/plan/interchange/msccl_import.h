#pragma once

#include <string>
#include <string_view>

#include "algorithms/plan_text.h"
#include "cli/plan/interchange/msccl.h"

namespace tutti::cli::interchange {

/// Throws Error{invalid_argument} if the program is inconsistent or cannot be a plan. Errors that the checker finds are
/// in the verdict. Both name rank, thread block and step.
algorithms::CheckedPlans import_program(const MscclProgram& program);

/// Throws Error{invalid_argument} that names file and line, and {unsupported} if this program was built without a
/// parser.
MscclProgram parse_msccl(std::string_view text, const std::string& file_name);

}  // namespace tutti::cli::interchange
