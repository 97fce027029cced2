// What people write about algorithms, sizes and faults.

#include "algorithms/catalogue.h"
#include "algorithms/select.h"
#include "cli/base/sizes.h"
#include "lib/collective/planner.h"
#include "lib/failure/inject.h"
#include "tests/fuzz/input.h"

using namespace tutti;
using namespace tutti::fuzz;

namespace {

constexpr int ranks = 4;

Collective collective_of(std::size_t number) {
  const auto all = algorithms::catalogue();
  return all[number % all.size()].collective;
}

void try_name(std::string_view text) {
  const Collective collective = collective_of(text.size());
  const algorithms::Choice choice = algorithms::find(collective, text);
  require(choice.entry != nullptr && choice.entry->collective == collective);
  require(algorithms::to_string(algorithms::find(collective, algorithms::to_string(choice))) ==
          algorithms::to_string(choice));
  if (choice.pipeline > 64) return;  // a plan of that size only takes time
  const algorithms::Plan plan =
      choice.entry->build({.rank = 1, .ranks = ranks, .root = 0, .pipeline = choice.pipeline, .radix = choice.radix});
  require(!plan.steps.empty());
}

void try_table(std::string_view text) {
  const auto table = algorithms::TuningTable::parse(text, "fuzz");
  for (const std::size_t bytes : {0u, 1u, 1000u, 1'000'000u}) {
    const auto choice = table.select({.collective = collective_of(bytes), .ranks = ranks, .bytes = bytes});
    require(choice.entry != nullptr && choice.entry->collective == collective_of(bytes));
  }
}

void try_defaults(std::string_view text) {
  const std::shared_ptr<const algorithms::TuningTable> table{&algorithms::TuningTable::builtin(), [](const auto*) {}};
  detail::Planner planner{
      {.rank = 0, .ranks = ranks, .transport = "tcp", .default_algorithms = std::string{text}, .table = table}};
  planner.choose({.collective = collective_of(text.size()), .bytes = 1000});
}

void try_faults(std::string_view text) {
  const auto faults = detail::parse_faults(text, ranks);
  for (const detail::Fault& fault : faults) require(fault.rank >= -1 && fault.rank < ranks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  const int kind = input.number() % 6;
  const std::string_view text = input.rest();
  may_refuse([&] {
    if (kind == 0) try_name(text);
    if (kind == 1) try_table(text);
    if (kind == 2) try_defaults(text);
    if (kind == 3) try_faults(text);
    if (kind == 4) algorithms::find_collective(text);
    if (kind == 5) require(cli::parse_bytes(std::string{text}).value_or(0) <= std::size_t{1} << 46);
  });
  return 0;
}
