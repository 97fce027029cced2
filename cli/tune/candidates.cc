// Selects the algorithms of the catalogue to be measured.

#include "cli/tune/candidates.h"

#include <algorithm>

#include "algorithms/board_program.h"
#include "algorithms/catalogue.h"
#include "algorithms/select.h"
#include "algorithms/window_program.h"
#include "cli/tune/gpus.h"

namespace tutti::cli::tune {
namespace {

using algorithms::Choice;
using algorithms::Entry;
using algorithms::Plan;
using algorithms::Step;

constexpr std::size_t messages[] = {0, 16 << 10, 64 << 10, 256 << 10};  // sizes in between are tried around the best
constexpr std::size_t least_message = 8 << 10;
constexpr std::size_t most_message = 4 << 20;
constexpr int deepest = 512;
constexpr int radices[] = {2, 4, 8};

bool same(const Step& a, const Step& b) {
  return a.verb == b.verb && a.peer == b.peer && a.dst == b.dst && a.left == b.left && a.right == b.right;
}

std::vector<Plan> plans_of(const Choice& choice, int ranks) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < ranks; ++rank)
    plans.push_back(choice.entry->build(algorithms::shape_of(choice, rank, ranks, 0)));
  return plans;
}

bool same(const std::vector<Plan>& a, const std::vector<Plan>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](const Plan& one, const Plan& other) {
    return one.shape.pipeline == other.shape.pipeline &&
           std::equal(one.steps.begin(), one.steps.end(), other.steps.begin(), other.steps.end(),
                      [](const Step& x, const Step& y) { return same(x, y); });
  });
}

/// The plans without a pipeline and, if it has one, with some depth. Choices with the same plans here have the same
/// plans always.
std::vector<std::vector<Plan>> looks_of(Choice choice, int ranks) {
  constexpr int some_depth = 3;
  std::vector<std::vector<Plan>> looks{plans_of(choice, ranks)};
  choice.pipeline = some_depth;
  if (choice.entry->has_pipeline) looks.push_back(plans_of(choice, ranks));
  return looks;
}

}  // namespace

bool runs_in_peers_memory(const Choice& choice, int ranks) {
  if (!choice.entry->mesh) return false;
  const algorithms::Lowering on_board = algorithms::lower_to_board(plans_of(choice, ranks));
  return !algorithms::lower_to_windows(on_board.programs, 0).empty();
}

Candidates::Candidates(Collective collective, int ranks, std::string_view transport)
    : collective_(collective), ranks_(ranks) {
  add_those_with_plans(transport);
  if (transport == leader_kind || transport == peers_kind) names_.emplace_back(algorithms::staged_word);
}

void Candidates::add_those_with_plans(std::string_view transport) {
  std::vector<std::vector<Plan>> seen;
  for (const Entry& entry : algorithms::catalogue(collective_))
    for (const int radix : radices) {
      if (radix != 2 && (!entry.has_radix || radix >= ranks_)) continue;
      Choice choice{.entry = &entry, .radix = radix};
      if (transport == leader_kind && !runs_in_peers_memory(choice, ranks_)) continue;
      const bool special = entry.mesh;
      bool is_new = special;
      for (std::vector<Plan>& plans : looks_of(choice, ranks_)) {
        is_new = is_new || std::none_of(seen.begin(), seen.end(),
                                        [&](const std::vector<Plan>& other) { return same(plans, other); });
        if (!special) seen.push_back(std::move(plans));
      }
      for (const std::size_t message : messages) {
        choice.message = message;
        if (is_new && (message == 0 || entry.has_pipeline)) names_.push_back(to_string(choice));
      }
    }
}

bool Candidates::makes_sense(const Choice& choice, std::size_t bytes) const {
  const int pipeline = settled(choice, ranks_, bytes).pipeline;
  return choice.message == 0 ||
         (choice.message >= least_message && choice.message <= most_message && pipeline > 1 && pipeline <= deepest);
}

std::vector<std::string> Candidates::at(std::size_t bytes) const {
  std::vector<std::string> fitting;
  for (const std::string& name : names_)
    if (name == algorithms::staged_word || makes_sense(algorithms::find(collective_, name), bytes))
      fitting.push_back(name);
  return fitting;
}

std::vector<std::string> Candidates::neighbours(const std::string& name, std::size_t bytes) const {
  if (name == algorithms::staged_word) return {};
  Choice choice = algorithms::find(collective_, name);
  std::vector<std::string> found;
  const std::size_t message = choice.message;
  for (const std::size_t other : {message / 2, message * 2}) {
    choice.message = other;
    if (other > 0 && makes_sense(choice, bytes)) found.push_back(to_string(choice));
  }
  return found;
}

}  // namespace tutti::cli::tune
