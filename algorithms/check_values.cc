// Does every contribution arrive where it belongs, exactly once? The final contents of the interpreter must be those
// that the collective promises, and it must have met no error.

#include "algorithms/check_interpreter.h"

namespace tutti::algorithms::checking {

void check_values(const World& world, const Run& run, bool in_place, Problems& report) {
  Interpreter interpreter(world, run, in_place, report);
  for (const RankStep& at : run.order) {
    if (report.full()) break;
    interpreter.execute(at);
  }
  interpreter.check_results();
}

}  // namespace tutti::algorithms::checking
