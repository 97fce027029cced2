// Does every contribution arrive where it belongs, exactly once? What the interpreter ends with must be what the
// collective promises; what it cannot make sense of on the way is wrong as well.

#include "algorithms/check_interpreter.h"

namespace tutti::algorithms::checking {

void check_values(const World& world, const Run& run, bool in_place, Report& report) {
  Interpreter interpreter(world, run, in_place, report);
  for (const RankStep& at : run.order) {
    if (report.full()) break;
    interpreter.execute(at);
  }
  interpreter.check_results();
}

}  // namespace tutti::algorithms::checking
