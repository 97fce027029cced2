// Which lines of a table apply on a machine.

#include "cli/tune/lines.h"

#include <fmt/core.h>

#include <set>

#include "cli/base/text.h"

namespace tutti::cli::tune {

std::string lines_text(const algorithms::TuningTable& table, const std::string& name, std::span<const Place> places) {
  std::set<int> deciding;
  for (const Place& place : places)
    for (int i = 0; i < collective_count; ++i)
      for (const bool equal_parts : {true, false})
        for (const bool rank_order : {false, true})
          for (const bool boards : {true, false})
            deciding.merge(table.deciding({.collective = static_cast<Collective>(i),
                                           .ranks = place.ranks,
                                           .transport = place.transport,
                                           .oversubscribed = place.oversubscribed,
                                           .equal_parts = equal_parts,
                                           .rank_order = rank_order,
                                           .boards = boards}));
  std::size_t count = 0;
  std::string idle;
  for (const algorithms::TuningTable::Line& line : table.lines()) {
    ++count;
    if (!deciding.contains(line.number) && !line.text.ends_with(" domains"))
      idle += fmt::format("# {}:{} decides no call here: {}\n", name, line.number, line.text);
  }
  return fmt::format("# {} has {}, {} of which decide calls here\n{}", name, plural(count, "line"), deciding.size(),
                     idle);
}

}  // namespace tutti::cli::tune
