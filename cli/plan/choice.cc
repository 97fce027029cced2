#include "cli/plan/choice.h"

#include <fmt/core.h>

#include "cli/base/input_file.h"
#include "lib/base/environment.h"
#include "lib/base/topology.h"
#include "tutti/error.h"

namespace tutti::cli {

algorithms::Choice ask_table(const algorithms::Situation& situation, std::string& why) {
  const std::string path = variable("TUTTI_TUNING_FILE").value_or("");
  if (path.empty()) return algorithms::TuningTable::builtin().select(situation, &why);
  return algorithms::TuningTable::parse(read_input("plan", path), path).select(situation, &why);
}

algorithms::Choice with_parameters(const algorithms::Choice& choice, int radix, int pipeline) {
  std::string name{choice.entry->name};
  if (radix != 0 || choice.entry->has_radix) name += fmt::format(":{}", radix != 0 ? radix : choice.radix);
  if (pipeline != 0 || choice.pipeline != 1) name += fmt::format("*{}", pipeline != 0 ? pipeline : choice.pipeline);
  return algorithms::find(choice.entry->collective, name);
}

std::vector<int> read_domains(const std::string& path, int ranks) {
  std::vector<int> domains = domains_of(Topology::parse(read_input("plan", path), path).places_of(ranks));
  if (!domains.empty()) return domains;
  throw Error{ErrorCode::invalid_argument,
              fmt::format("plan: {} divides {} ranks into no domains: all share a cache and a node, or no two share "
                          "any, or a rank from 0 to {} is on no line; lines for cores do not count here",
                          path, ranks, ranks - 1)};
}

}  // namespace tutti::cli
