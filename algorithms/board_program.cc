#include "algorithms/board_program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "algorithms/board_sources.h"
#include "tutti/error.h"

namespace tutti::algorithms {
namespace {

using namespace lowering;
using Contribution = BoardProgram::Contribution;

/// Makes rounds from the sources of the outputs.
class Lowerer {
 public:
  explicit Lowerer(std::span<const Plan> plans) : pipeline_(plans[0].shape.pipeline), run_(plans) {}

  Lowering lower() {
    Lowering made;
    if (run_.execute() && add_results() && add_contributions()) made.programs = std::move(programs_);
    made.why_not = run_.why_not();
    return made;
  }

 private:
  bool add_results();
  bool add_result(int rank, int unit);
  bool add_contributions();
  void post_own_of_folds();
  Contribution contribution_of(const std::vector<UnitPlace>& places) const;
  void locate(BoardProgram::Source& source, const std::vector<UnitPlace>& places,
              const std::vector<Blocks>& ranges) const;
  bool compare(BoardProgram::Round& round, const std::vector<std::vector<UnitPlace>>& contributed);
  Blocks blocks(const UnitPlace& place) const { return run_.cuts().blocks(place.buffer, place.unit); }
  int unit_of(const Blocks& blocks) const { return run_.cuts().units(blocks).first; }

  int pipeline_;
  SourceRun run_;
  std::vector<BoardProgram> programs_;
  std::vector<std::vector<std::vector<UnitPlace>>> contributed_;  // by round and rank
  bool rank_order_ = true;
  bool posts_own_ = false;
};

bool Lowerer::add_results() {
  int rounds = 1;
  run_.for_each_message([&](int, const UnitPlace&, int round) { rounds = std::max(rounds, round + 1); });
  contributed_.assign(at(rounds), std::vector<std::vector<UnitPlace>>(at(run_.ranks())));
  programs_.resize(at(run_.ranks()));
  for (int rank = 0; rank < run_.ranks(); ++rank) {
    programs_[at(rank)].rank = rank;
    programs_[at(rank)].rounds.resize(at(rounds));
    for (int unit = 0; unit < run_.cuts().units(); ++unit)
      if (!add_result(rank, unit)) return false;
  }
  return true;
}

bool Lowerer::add_result(int rank, int unit) {
  const std::vector<Term> terms = run_.sources(rank, unit);
  const bool is_there = terms.size() == 1 && terms[0].from == UnitPlace{rank, Buffer::output, unit};  // at a root
  if (terms.empty() || is_there) return true;
  const bool folds = terms.size() > 1;
  if (folds && terms.size() != at(run_.ranks())) return run_.refuse("does not sum all ranks' at once");
  BoardProgram::Round& round = programs_[at(rank)].rounds[at(std::max(run_.ready(rank, unit) - 1, 0))];
  round.results.push_back({run_.cuts().blocks(Buffer::output, unit), static_cast<int>(round.sources.size()),
                           static_cast<int>(terms.size())});
  for (int i = 0; const Term& term : terms) {
    if (run_.cuts().size(term.from.unit) != run_.cuts().size(unit)) return run_.refuse("moves blocks of other sizes");
    // In place, another result may have overwritten that input by then.
    if (term.from.rank == rank && term.from.unit != unit) return run_.refuse("moves its own data to another place");
    rank_order_ = rank_order_ && (!folds || term.from.rank == i);
    posts_own_ = posts_own_ || (folds && term.from.rank == rank && i > 0);
    round.sources.push_back({term.from.rank, blocks(term.from)});
    ++i;
  }
  return true;
}

bool Lowerer::add_contributions() {
  run_.for_each_message([&](int reader, const UnitPlace& from, int k) {
    contributed_[at(k)][at(from.rank)].push_back(from);
    programs_[at(from.rank)].rounds[at(k)].readings.push_back({reader, blocks(from)});
    auto& awaited = programs_[at(reader)].rounds[at(k)].awaited;
    const auto where = std::lower_bound(awaited.begin(), awaited.end(), from.rank);
    if (where == awaited.end() || *where != from.rank) awaited.insert(where, from.rank);
  });
  if (posts_own_) post_own_of_folds();
  for (std::size_t k = 0; k < contributed_.size(); ++k) {
    std::vector<Contribution> all;
    for (std::vector<UnitPlace>& places : contributed_[k]) {
      std::sort(places.begin(), places.end());
      places.erase(std::unique(places.begin(), places.end()), places.end());
      all.push_back(contribution_of(places));
    }
    for (BoardProgram& program : programs_) {
      program.rank_order = rank_order_;
      BoardProgram::Round& round = program.rounds[k];
      round.contributions = all;
      for (BoardProgram::Source& source : round.sources)
        locate(source, contributed_[k][at(source.rank)], all[at(source.rank)].ranges);
      if (!compare(round, contributed_[k])) return false;
    }
  }
  return true;
}

/// A fold in place takes its rank's own part from the board, unless that part comes first. If one fold has to post its
/// own part, all do, so that contributions stay equal.
void Lowerer::post_own_of_folds() {
  for (const BoardProgram& program : programs_)
    for (const BoardProgram::Result& result : program.rounds[0].results)
      for (int i = 0; result.count > 1 && i < result.count; ++i) {
        const BoardProgram::Source& source = program.rounds[0].sources[at(result.first + i)];
        if (source.rank == program.rank)
          contributed_[0][at(source.rank)].push_back({source.rank, source.blocks.buffer, unit_of(source.blocks)});
      }
}

Contribution Lowerer::contribution_of(const std::vector<UnitPlace>& places) const {
  Contribution made;
  made.units = static_cast<int>(places.size());
  for (const UnitPlace& place : places) {
    const Blocks unit = blocks(place);
    Blocks* const last = made.ranges.empty() ? nullptr : &made.ranges.back();
    if (last && last->buffer == unit.buffer && last->first + last->count == unit.first)
      last->count += unit.count;
    else
      made.ranges.push_back(unit);
  }
  return made;
}

void Lowerer::locate(BoardProgram::Source& source, const std::vector<UnitPlace>& places,
                     const std::vector<Blocks>& ranges) const {
  const UnitPlace place{source.rank, source.blocks.buffer, unit_of(source.blocks)};
  const auto found = std::lower_bound(places.begin(), places.end(), place);
  if (found == places.end() || *found != place) return;  // the rank's own, which no other rank reads
  source.unit = static_cast<int>(found - places.begin());
  const auto has_it = [&](const Blocks& range) {
    return range.buffer == source.blocks.buffer && range.first <= source.blocks.first &&
           source.blocks.first < range.first + range.count;
  };
  source.range = static_cast<int>(std::find_if(ranges.begin(), ranges.end(), has_it) - ranges.begin());
}

/// Finds what contributions have in common, so that their sizes need not be computed one by one.
bool Lowerer::compare(BoardProgram::Round& round, const std::vector<std::vector<UnitPlace>>& contributed) {
  const Contribution* first = nullptr;
  round.same_blocks = round.same_parts = true;
  for (std::size_t rank = 0; rank < contributed.size(); ++rank) {
    const Contribution& one = round.contributions[rank];
    if (one.units == 0) continue;
    if (!first) {
      first = &one;
      round.first_contributor = static_cast<int>(rank);
      round.unit_blocks = run_.cuts().size(contributed[rank].front().unit);
    }
    for (const UnitPlace& place : contributed[rank])
      if (run_.cuts().size(place.unit) != round.unit_blocks || place.buffer != contributed[rank].front().buffer)
        return run_.refuse("posts what cannot be cut into equal pieces");
    round.most_units = std::max(round.most_units, one.units);
    round.same_blocks = round.same_blocks && one == *first;
    round.same_parts = round.same_parts && one.units == first->units;
  }
  round.same_parts = round.same_parts && round.unit_blocks % pipeline_ == 0;
  for (const BoardProgram::Result& result : round.results)
    if (first && result.dst.count != round.unit_blocks) return run_.refuse("has results of other sizes than it posts");
  return true;
}

}  // namespace

bool BoardProgram::awaits(int peer) const {
  return std::any_of(rounds.begin(), rounds.end(), [peer](const Round& round) {
    return std::binary_search(round.awaited.begin(), round.awaited.end(), peer);
  });
}

Lowering lower_to_board(std::span<const Plan> plans) { return Lowerer{plans}.lower(); }

std::vector<Plan> plans_of_all(const Choice& choice, const Shape& shape) {
  std::vector<Plan> plans;
  plans.reserve(at(shape.ranks));
  for (int rank = 0; rank < shape.ranks; ++rank)
    plans.push_back(choice.entry->build({rank, shape.ranks, shape.root, choice.pipeline, choice.radix}));
  return plans;
}

bool BoardReaders::operator()(Collective collective, const std::string& algorithm, int ranks, int root, int reader,
                              int writer) {
  const Key key{collective, algorithm, ranks, root};
  if (key_ != key) {
    key_ = key;
    programs_.clear();
    try {
      programs_ = lower_to_board(plans_of_all(find(collective, algorithm), {0, ranks, root})).programs;
    } catch (const Error&) {
      programs_.clear();  // the name may belong to another version
    }
  }
  return at(reader) < programs_.size() && programs_[at(reader)].awaits(writer);
}

}  // namespace tutti::algorithms
