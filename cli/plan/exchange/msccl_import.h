#pragma once

#include <string>
#include <string_view>

#include "algorithms/check.h"
#include "algorithms/plan_text.h"
#include "cli/plan/exchange/msccl.h"

namespace tutti::cli::exchange {

/// A foreign program as plans, proved or found wrong.
struct Imported {
  algorithms::GivenPlans given;
  algorithms::StepNames names;  ///< what the file calls the steps of the plans
  algorithms::Verdict verdict;
};

/// Throws Error{invalid_argument} where the program is wrong in itself or makes no plan: what else the checker finds
/// stands in the verdict. Rank, thread block and step are named in both.
Imported import_program(const MscclProgram& program);

/// Throws Error{invalid_argument} that names file and line, {unsupported} where the program was built without a parser.
MscclProgram parse_msccl(std::string_view text, const std::string& file_name);

/// The two together, from a file.
Imported import_file(const std::string& path);

}  // namespace tutti::cli::exchange
