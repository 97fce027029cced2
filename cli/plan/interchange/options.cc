// Files that `tutti plan` writes for other programs: --goal, --msccl and --save.

#include "cli/plan/interchange/options.h"

#include <fmt/core.h>

#include <cstdio>

#include "algorithms/plan_text.h"
#include "cli/base/output.h"
#include "cli/plan/interchange/goal.h"
#include "cli/plan/interchange/msccl.h"
#include "tutti/error.h"

namespace tutti::cli::interchange {
namespace {

void write(const std::string& path, const std::string& text, const char* what) {
  if (path == "-") {
    print_text(text);
    return;
  }
  write_file("plan", path, text);
  fmt::print("Written to {}: {}\n", path, what);
}

/// "ring*2" and "tree:4" as one word that may be the name of a plan.
std::string word_for(const View& view) {
  std::string word = to_string(view.choice);
  for (char& c : word)
    if (!algorithms::may_be_in_name(c)) c = '-';
  if (word.size() > algorithms::longest_name) word.resize(algorithms::longest_name);
  return word;
}

}  // namespace

void write_files(const Outputs& outputs, const View& view, std::size_t bytes) {
  if (!outputs.any()) return;
  if (!view.complete())
    throw Error{ErrorCode::unsupported,
                fmt::format("plan: the plans of {} ranks are too large to be written together", view.shape.ranks)};
  if (!view.verdict.ok())
    throw Error{ErrorCode::invalid_argument, "plan: a wrong plan is not written: " + view.verdict.problems.front()};
  if (!outputs.goal.empty())
    write(outputs.goal,
          goal(view.collective, view.plans, {.bytes = bytes, .nanoseconds_per_byte = outputs.calc_per_byte}),
          "a GOAL schedule");
  if (!outputs.msccl.empty()) {
    const MscclProgram program = msccl_program(word_for(view), view.collective, view.plans);
    if (const std::string beyond = beyond_limits(program); !beyond.empty())
      say_error(fmt::format("tutti: plan: MSCCL's runtime will refuse {}: {}\n", outputs.msccl, beyond));
    write(outputs.msccl, to_xml(program), "a program of MSCCL");
  }
  if (outputs.save.empty()) return;
  algorithms::GivenPlans given{.name = word_for(view), .collective = view.collective, .plans = view.plans};
  if (given.name == view.choice.entry->name && view.choice.entry->build) given.name = "saved_" + given.name;
  given.equal_parts = view.choice.entry->equal_parts;
  given.rank_order = view.choice.entry->rank_order;
  write(outputs.save, write_plans(given), ("for TUTTI_PLAN_FILE, as " + given.name).c_str());
}

}  // namespace tutti::cli::interchange
