// Plans that others write: programs of MSCCL, and files of plans.

#include "algorithms/check.h"
#include "algorithms/plan_text.h"
#include "cli/plan/interchange/msccl.h"
#include "cli/plan/interchange/msccl_import.h"
#include "tests/fuzz/input.h"

using namespace tutti;
using namespace tutti::fuzz;

namespace {

/// What is taken is proved, and is the same when it was written down and read again.
void require_sound(const algorithms::GivenPlans& given) {
  const std::string text = algorithms::write_plans(given);
  const algorithms::GivenPlans again = algorithms::read_plans(text, "fuzz");
  require(algorithms::write_plans(again) == text);
}

void try_program(std::string_view text) {
  const algorithms::CheckedPlans imported = import_program(cli::interchange::parse_msccl(text, "fuzz"));
  require(imported.names.size() == imported.given.plans.size());
  if (!imported.verdict.ok()) return;
  require_sound(imported.given);
  const auto program = cli::interchange::msccl_program("again", imported.given.collective, imported.given.plans);
  const auto again = import_program(cli::interchange::parse_msccl(to_xml(program), "again"));
  require(again.verdict.ok() && again.verdict.messages == imported.verdict.messages);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  const int kind = input.number() % 2;
  const std::string_view text = input.rest();
  may_refuse([&] {
    if (kind == 0) try_program(text);
    if (kind == 1) require_sound(algorithms::read_plans(text, "fuzz"));
  });
  return 0;
}
