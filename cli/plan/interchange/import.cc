#include "cli/plan/interchange/import.h"

#include <fmt/format.h>

#include <utility>

#include "cli/base/input_file.h"
#include "cli/plan/interchange/msccl_import.h"
#include "tutti/error.h"

namespace tutti::cli::interchange {
namespace {

algorithms::CheckedPlans import_msccl(std::string_view text, const std::string& path) {
  const MscclProgram program = parse_msccl(text, path);
  try {
    return import_program(program);
  } catch (const Error& error) {
    throw Error{error.code(), fmt::format("{}: {}", path, error.what())};
  }
}

}  // namespace

algorithms::CheckedPlans import_file(std::string_view who, const std::string& path) {
  const std::string text = read_input(who, path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos)
    throw Error{ErrorCode::invalid_argument, fmt::format("{}: {} is empty: it has no plan", who, path)};
  return text[first] == '<' ? import_msccl(text, path) : algorithms::check_plans(text, path);
}

void require_right(std::string_view who, const std::string& path, const algorithms::Verdict& verdict) {
  if (verdict.ok()) return;
  std::string text = fmt::format("{}: {} is wrong:", who, path);
  for (const std::string& problem : verdict.problems) text += "\n  " + problem;
  throw Error{ErrorCode::invalid_argument, text};
}

void load_foreign(std::string_view who, const std::string& path, Foreign& foreign) {
  algorithms::CheckedPlans checked = import_file(who, path);
  foreign.given = std::move(checked.given);
  foreign.idea = "a plan from " + path;
  foreign.entry = {.collective = foreign.given.collective,
                   .name = foreign.given.name,
                   .build = nullptr,
                   .equal_parts = foreign.given.equal_parts,
                   .rank_order = foreign.given.rank_order,
                   .idea = foreign.idea};
  foreign.view.collective = foreign.given.collective;
  foreign.view.choice.entry = &foreign.entry;
  foreign.view.shape = foreign.given.plans[0].shape;
  foreign.view.plans = foreign.given.plans;
  foreign.view.verdict = std::move(checked.verdict);
}

}  // namespace tutti::cli::interchange
