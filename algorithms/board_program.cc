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
class BoardLowerer {
 public:
  explicit BoardLowerer(std::span<const Plan> plans)
      : pipeline_(plans[0].shape.pipeline), blocks_(plans[0].shape.ranks * pipeline_), run_(plans) {}

  Lowering lower() {
    Lowering made;
    if (run_.execute() && add_results() && add_contributions()) made.programs = std::move(programs_);
    made.why_not = run_.why_not();
    return made;
  }

 private:
  bool add_results();
  bool add_result(const UnitPlace& to, const std::vector<Term>& terms, int round);
  bool add_contributions();
  void post_own_of_folds();
  Contribution contribution_of(const std::vector<UnitPlace>& places) const;
  void locate(BoardProgram::Source& source, const std::vector<UnitPlace>& places,
              const std::vector<Blocks>& ranges) const;
  static void put_own_copies_first(const BoardProgram& program, BoardProgram::Round& round);
  bool compare(BoardProgram::Round& round, const std::vector<std::vector<UnitPlace>>& contributed);
  Blocks blocks(const UnitPlace& place) const { return run_.blocks(place); }
  int unit_of(const Blocks& blocks) const { return run_.cuts().units(blocks).first; }

  int pipeline_;
  int blocks_;  // of the vector
  SourceRun run_;
  std::vector<BoardProgram> programs_;
  std::vector<std::vector<std::vector<UnitPlace>>> contributed_;  // by round and rank
  bool rank_order_ = true;
  bool posts_own_ = false;
};

bool BoardLowerer::add_results() {
  int rounds = 1;
  run_.for_each_message([&](int, const UnitPlace&, int round) { rounds = std::max(rounds, round + 1); });
  contributed_.assign(at(rounds), std::vector<std::vector<UnitPlace>>(at(run_.ranks())));
  programs_.resize(at(run_.ranks()));
  for (int rank = 0; rank < run_.ranks(); ++rank) {
    programs_[at(rank)].rank = rank;
    programs_[at(rank)].rounds.resize(at(rounds));
    programs_[at(rank)].by_domains = run_.by_domains();
    programs_[at(rank)].scratch_areas = run_.scratch_areas(rank);
  }
  for (const Kept& kept : run_.kept())
    if (!add_result(kept.place, kept.terms, kept.round)) return false;
  for (int rank = 0; rank < run_.ranks(); ++rank)
    for (int unit = 0; unit < run_.cuts().units(); ++unit)
      if (!add_result({rank, Buffer::output, unit}, run_.sources(rank, unit), std::max(run_.ready(rank, unit) - 1, 0)))
        return false;
  return true;
}

bool BoardLowerer::add_result(const UnitPlace& to, const std::vector<Term>& terms, int round_number) {
  const bool is_there = terms.size() == 1 && terms[0].from == to;  // at a root, or kept there
  if (terms.empty() || is_there) return true;
  const bool folds = terms.size() > 1;
  if (folds && terms.size() != at(run_.ranks()) && !run_.by_domains())
    return run_.refuse("does not sum all ranks' at once");
  const Blocks dst = blocks(to);
  BoardProgram::Round& round = programs_[at(to.rank)].rounds[at(round_number)];
  round.results.push_back({dst, static_cast<int>(round.sources.size()), static_cast<int>(terms.size())});
  for (int i = 0; const Term& term : terms) {
    const Blocks source = blocks(term.from);
    const bool own = term.from.rank == to.rank;
    if (source.count != dst.count) return run_.refuse("moves blocks of other sizes");
    // In place, another result may have overwritten that input by then.
    if (own && (source.first - dst.first) % blocks_ != 0) return run_.refuse("moves its own data to another place");
    rank_order_ = rank_order_ && (!folds || term.from.rank == i);
    // In place, the fold of a later round may overwrite that input, which is on no post of that round.
    const bool may_be_overwritten =
        folds && own && i > 0 && source.buffer == Buffer::input && dst.buffer == Buffer::output;
    if (may_be_overwritten && round_number > 0) return run_.refuse("adds its own data late");
    posts_own_ = posts_own_ || may_be_overwritten;
    round.sources.push_back({term.from.rank, source});
    ++i;
  }
  return true;
}

bool BoardLowerer::add_contributions() {
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
      put_own_copies_first(program, round);
      if (!compare(round, contributed_[k])) return false;
    }
  }
  return true;
}

/// A fold in place takes its rank's own part from the board, unless that part comes first. If one fold has to post its
/// own part, all do, so that contributions stay equal.
void BoardLowerer::post_own_of_folds() {
  for (const BoardProgram& program : programs_)
    for (const BoardProgram::Result& result : program.rounds[0].results)
      for (int i = 0; result.count > 1 && i < result.count; ++i) {
        const BoardProgram::Source& source = program.rounds[0].sources[at(result.first + i)];
        if (source.rank == program.rank && source.blocks.buffer != Buffer::scratch)
          contributed_[0][at(source.rank)].push_back({source.rank, source.blocks.buffer, unit_of(source.blocks)});
      }
}

Contribution BoardLowerer::contribution_of(const std::vector<UnitPlace>& places) const {
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

void BoardLowerer::locate(BoardProgram::Source& source, const std::vector<UnitPlace>& places,
                          const std::vector<Blocks>& ranges) const {
  const auto is_it = [&](const UnitPlace& place) { return blocks(place) == source.blocks; };
  const bool in_scratch = source.blocks.buffer == Buffer::scratch;
  const auto found = in_scratch
                         ? std::find_if(places.begin(), places.end(), is_it)
                         : std::lower_bound(places.begin(), places.end(),
                                            UnitPlace{source.rank, source.blocks.buffer, unit_of(source.blocks)});
  if (found == places.end() || !is_it(*found)) return;  // the rank's own, which no other rank reads
  source.unit = static_cast<int>(found - places.begin());
  const auto has_it = [&](const Blocks& range) {
    return range.buffer == source.blocks.buffer && range.first <= source.blocks.first &&
           source.blocks.first < range.first + range.count;
  };
  source.range = static_cast<int>(std::find_if(ranges.begin(), ranges.end(), has_it) - ranges.begin());
}

void BoardLowerer::put_own_copies_first(const BoardProgram& program, BoardProgram::Round& round) {
  const auto is_own_copy = [&](const BoardProgram::Result& result) {
    const BoardProgram::Source& source = round.sources[at(result.first)];
    return result.count == 1 && source.rank == program.rank && source.blocks.buffer == Buffer::input;
  };
  const auto first = round.results.begin();
  round.own_copies = static_cast<int>(std::stable_partition(first, round.results.end(), is_own_copy) - first);
}

/// Finds what contributions have in common, so that their sizes need not be computed one by one.
bool BoardLowerer::compare(BoardProgram::Round& round, const std::vector<std::vector<UnitPlace>>& contributed) {
  const Contribution* first = nullptr;
  round.same_blocks = round.same_parts = true;
  for (std::size_t rank = 0; rank < contributed.size(); ++rank) {
    const Contribution& one = round.contributions[rank];
    if (one.units == 0) continue;
    ++round.contributors;
    if (!first) {
      first = &one;
      round.first_contributor = static_cast<int>(rank);
      round.unit_blocks = blocks(contributed[rank].front()).count;
    }
    for (const UnitPlace& place : contributed[rank])
      if (blocks(place).count != round.unit_blocks || place.buffer != contributed[rank].front().buffer)
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

Lowering lower_to_board(std::span<const Plan> plans) { return BoardLowerer{plans}.lower(); }

std::vector<Plan> plans_of_all(const Choice& choice, const Shape& shape) {
  std::vector<Plan> plans;
  plans.reserve(at(shape.ranks));
  for (int rank = 0; rank < shape.ranks; ++rank)
    plans.push_back(choice.entry->build(shape_of(choice, rank, shape.ranks, shape.root)));
  return plans;
}

bool BoardReaders::operator()(Collective collective, const std::string& algorithm, int ranks, int root, int reader,
                              int writer) {
  const Key key{collective, algorithm, ranks, root};
  auto found = known_.find(key);
  if (found == known_.end()) {
    constexpr std::size_t most_known = 1000;  // of a damaged file: any number
    if (known_.size() == most_known) known_.clear();
    found = known_.emplace(key, answers(key)).first;
  }
  const Answers& known = found->second;
  return at(reader) < known.size() && at(writer) < known.size() && known[at(reader)][at(writer)];
}

BoardReaders::Answers BoardReaders::answers(const Key& key) {
  const auto& [collective, algorithm, ranks, root] = key;
  if (ranks < 1 || root < 0 || root >= ranks) return {};  // a damaged file says so
  Answers made;
  try {
    const Lowering lowered = lower_to_board(plans_of_all(find(collective, algorithm), {0, ranks, root}));
    for (const BoardProgram& program : lowered.programs) {
      std::vector<bool>& awaited = made.emplace_back(at(ranks));
      for (int writer = 0; writer < ranks; ++writer) awaited[at(writer)] = program.awaits(writer);
    }
  } catch (const Error&) {
    return {};  // the name may belong to another version
  }
  return made;
}

}  // namespace tutti::algorithms
