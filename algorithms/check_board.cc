// A board program is proved by writing it as plans again, with a message for each reading, and proving those.
// Properties that plans cannot express are checked before: the place in a contribution that a reader uses, and the
// ranks it waits for.

#include "algorithms/check_board.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/describe.h"
#include "lib/base/index.h"

namespace tutti::algorithms {
namespace {

using Round = BoardProgram::Round;
using Source = BoardProgram::Source;

bool reads_of(const Round& round, int writer) {
  return std::any_of(round.sources.begin(), round.sources.end(),
                     [writer](const Source& source) { return source.rank == writer; });
}

/// Checks the properties that plans cannot express.
class Layout {
 public:
  Layout(std::span<const BoardProgram> programs, int blocks) : programs_(programs), blocks_(blocks) {}

  std::vector<std::string> problems() && {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank)
      if (at(programs_[rank].rank) != rank || programs_[rank].rounds.size() != programs_[0].rounds.size())
        problem(rank, 0, "does not take part in every round");
    for (std::size_t rank = 0; rank < programs_.size() && problems_.empty(); ++rank)
      for (std::size_t k = 0; k < programs_[rank].rounds.size(); ++k) look_at(rank, k);
    return std::move(problems_);
  }

 private:
  /// One of them is scratch, so that a fold into the other does not overwrite it.
  static bool is_apart(const Blocks& source, const Blocks& dst) {
    return source != dst && (source.buffer == Buffer::scratch || dst.buffer == Buffer::scratch);
  }

  void problem(std::size_t rank, std::size_t k, const std::string& text) {
    problems_.push_back("rank " + std::to_string(rank) + ", round " + std::to_string(k) + ": " + text);
  }

  static bool is_own_copy(std::size_t rank, const Round& round, const BoardProgram::Result& result) {
    const Source& source = round.sources[at(result.first)];
    return result.count == 1 && at(source.rank) == rank && source.blocks.buffer == Buffer::input;
  }

  void look_at(std::size_t rank, std::size_t k) {
    const Round& round = programs_[rank].rounds[k];
    if (round.contributions != programs_[0].rounds[k].contributions)
      problem(rank, k, "takes contributions for others than rank 0 does");
    for (int i = 0; i < round.own_copies; ++i)
      if (std::cmp_greater_equal(i, round.results.size()) || !is_own_copy(rank, round, round.results[at(i)]))
        return problem(rank, k, "takes results for copies of its own input");
    for (const BoardProgram::Result& result : round.results)
      for (int i = 0; i < result.count; ++i) {
        const Source& source = round.sources[at(result.first + i)];
        const bool own = at(source.rank) == rank;
        if (own && (source.blocks.first - result.dst.first) % blocks_ != 0)
          problem(rank, k, "moves its own data in place");
        const bool stays = i == 0 || source.blocks.buffer == Buffer::output || is_apart(source.blocks, result.dst);
        if (own && stays && source.range == BoardProgram::no_range) continue;
        look_up(rank, k, source);
        if (!own && !std::binary_search(round.awaited.begin(), round.awaited.end(), source.rank))
          problem(rank, k, "reads of rank " + std::to_string(source.rank) + ", which it does not wait for");
      }
    for (const BoardProgram& other : programs_)
      for (const Source& source : other.rounds[k].sources) {
        const BoardProgram::Reading reading{other.rank, source.blocks};
        const bool reads_here = at(source.rank) == rank && other.rank != source.rank;
        if (reads_here && std::find(round.readings.begin(), round.readings.end(), reading) == round.readings.end())
          problem(rank, k, "does not know that rank " + std::to_string(other.rank) + " reads of it");
      }
  }

  /// Both ways to find a source must lead to it: by its range, and by its number among units of one size.
  void look_up(std::size_t rank, std::size_t k, const Source& source) {
    const Round& round = programs_[rank].rounds[k];
    const std::vector<Blocks>& ranges = round.contributions[at(source.rank)].ranges;
    const std::string what = to_string(source.blocks) + " of rank " + std::to_string(source.rank);
    if (source.range < 0 || at(source.range) >= ranges.size())
      return problem(rank, k, "looks for " + what + " where nothing is posted");
    int before = 0;
    for (int i = 0; i < source.range; ++i) before += ranges[at(i)].count;
    const Blocks& range = ranges[at(source.range)];
    const int skipped = source.blocks.first - range.first;
    const bool has_it =
        range.buffer == source.blocks.buffer && skipped >= 0 && skipped + source.blocks.count <= range.count;
    const bool counts_right = source.unit * round.unit_blocks == before + skipped;
    if (!has_it || !counts_right) problem(rank, k, "looks for " + what + " in the wrong place");
  }

  std::span<const BoardProgram> programs_;
  int blocks_;
  std::vector<std::string> problems_;
};

/// Plans with a message for everything that a rank reads from a board.
class Plans {
 public:
  Plans(Collective collective, const Shape& shape, std::size_t ranks)
      : blocks_(shape.ranks * shape.pipeline), scratch_(ranks), kept_(ranks), kept_used_(ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      Shape own = shape;
      own.rank = static_cast<int>(rank);
      builders_.emplace_back(own, collective == Collective::all_to_all ? InPlace::never : InPlace::allowed);
    }
  }

  void add(std::span<const BoardProgram> programs) {
    for (std::size_t k = 0; k < programs[0].rounds.size(); ++k) {
      for (const BoardProgram& program : programs) post(programs, program, k);
      for (const BoardProgram& program : programs) compute(program, program.rounds[k]);
    }
  }

  void add(std::span<const WindowProgram> programs);

  std::vector<Plan> build() && {
    std::vector<Plan> plans;
    for (PlanBuilder& builder : builders_) plans.push_back(std::move(builder).build());
    return plans;
  }

 private:
  /// Sends to each reader the parts that it reads, in its order. In a barrier, where nothing is read, the message says
  /// that this rank has arrived. A fold's own part is posted, too, since it is overwritten by results.
  void post(std::span<const BoardProgram> programs, const BoardProgram& own, std::size_t k) {
    PlanBuilder& plan = builders_[at(own.rank)];
    for (const BoardProgram& other : programs) {
      const Round& round = other.rounds[k];
      for (const Source& source : round.sources)
        if (source.rank == own.rank && other.rank != own.rank) plan.send(other.rank, local(own.rank, source.blocks));
      const bool waits = std::binary_search(round.awaited.begin(), round.awaited.end(), own.rank);
      if (waits && !reads_of(round, own.rank))
        plan.send(other.rank, local(own.rank, round.contributions[at(own.rank)].ranges.front()));
    }
    const Round& round = own.rounds[k];
    for (const BoardProgram::Result& result : round.results)
      for (int i = 1; i < result.count; ++i) {
        const Source& source = round.sources[at(result.first + i)];
        if (source.rank == own.rank && source.blocks.buffer != Buffer::scratch) keep(own.rank, source.blocks);
      }
  }

  void compute(const BoardProgram& own, const Round& round) {
    PlanBuilder& plan = builders_[at(own.rank)];
    for (const BoardProgram::Result& result : round.results)
      for (int i = 0; i < result.count; ++i) {
        const Source& source = round.sources[at(result.first + i)];
        const bool is_own = source.rank == own.rank;
        take(own.rank, local(own.rank, result.dst),
             {source.rank, is_own ? local(own.rank, source.blocks) : source.blocks}, i == 0);
      }
    for (const int writer : round.awaited)
      if (!reads_of(round, writer)) {
        const Blocks& token = round.contributions[at(writer)].ranges.front();
        plan.recv(writer, plan.scratch({Buffer::output, token.first % blocks_, token.count}));
      }
  }

  void take(int rank, Blocks dst, const WindowProgram::Part& source, bool is_first) {
    PlanBuilder& plan = builders_[at(rank)];
    const bool own = source.rank == rank;
    if (own && is_first) return plan.copy(dst, source.blocks);
    if (own && source.blocks.buffer == Buffer::scratch) return plan.reduce(dst, dst, source.blocks);
    if (own) return plan.reduce(dst, dst, kept_[at(rank)][kept_used_[at(rank)]++]);
    if (is_first) return plan.recv(source.rank, dst);
    plan.recv_reduce(source.rank, dst);
  }

  /// The slots that stand for those blocks of scratch.
  Blocks local(int rank, Blocks blocks) {
    if (blocks.buffer != Buffer::scratch) return blocks;
    const auto [slots, is_new] = scratch_[at(rank)].try_emplace({blocks.first, blocks.count});
    if (is_new) slots->second = builders_[at(rank)].scratch({Buffer::output, blocks.first % blocks_, blocks.count});
    return slots->second;
  }

  void keep(int rank, Blocks blocks) {
    const Blocks kept = builders_[at(rank)].scratch(blocks);
    builders_[at(rank)].copy(kept, blocks);
    kept_[at(rank)].push_back(kept);
  }

  int blocks_;
  std::vector<PlanBuilder> builders_;
  std::vector<std::map<std::pair<int, int>, Blocks>> scratch_;  // by rank, first block and number of blocks
  std::vector<std::vector<Blocks>> kept_;                       // by rank
  std::vector<std::size_t> kept_used_;
};

/// All ranks send the data that tasks of other ranks read, run their own tasks, and send the results that those write
/// to others.
void Plans::add(std::span<const WindowProgram> programs) {
  const auto for_each = [&](auto&& part) {
    for (std::size_t rank = 0; rank < programs.size(); ++rank)
      for (const WindowProgram::Task& task : programs[rank].tasks)
        part(static_cast<int>(rank), task,
             std::span{programs[rank].sources}.subspan(at(task.source), at(task.source_count)),
             std::span{programs[rank].destinations}.subspan(at(task.to), at(task.to_count)));
  };
  for_each([&](int rank, const auto&, auto sources, auto) {
    for (const WindowProgram::Part& source : sources)
      if (source.rank != rank) builders_[at(source.rank)].send(rank, source.blocks);
    for (const WindowProgram::Part& source : sources.subspan(1))
      if (source.rank == rank) keep(rank, source.blocks);
  });
  for_each([&](int rank, const WindowProgram::Task& task, auto sources, auto to) {
    PlanBuilder& plan = builders_[at(rank)];
    const bool keeps = std::find(to.begin(), to.end(), rank) != to.end();
    const bool only_copies = sources.size() == 1 && sources[0].rank == rank;
    const Blocks made = keeps ? task.dst : only_copies ? sources[0].blocks : plan.scratch(task.dst);
    const bool is_there = only_copies && made == sources[0].blocks;
    for (std::size_t i = 0; i < sources.size() && !is_there; ++i) take(rank, made, sources[i], i == 0);
    for (const int other : to)
      if (other != rank) plan.send(other, made);
  });
  for_each([&](int rank, const WindowProgram::Task& task, auto, auto to) {
    for (const int other : to)
      if (other != rank) builders_[at(other)].recv(rank, task.dst);
  });
}

/// Whether a block that one task writes is used by another task, of the same rank or of another one.
class SharedBlocks {
 public:
  SharedBlocks(std::size_t ranks, std::size_t blocks, bool in_place)
      : blocks_(blocks), in_place_(in_place), writer_(2 * ranks * blocks) {}

  std::vector<std::string> problems(std::span<const WindowProgram> programs) && {
    for (const bool writes : {true, false})
      for (std::size_t rank = 0; rank < programs.size(); ++rank)
        for (std::size_t task = 0; task < programs[rank].tasks.size(); ++task)
          look_at(programs[rank], programs[rank].tasks[task], {static_cast<int>(rank), static_cast<int>(task)}, writes);
    return std::move(problems_);
  }

 private:
  static constexpr int none = -1;
  /// A task.
  struct User {
    int rank = none;
    int task = none;
    bool operator==(const User&) const = default;
  };

  void look_at(const WindowProgram& program, const WindowProgram::Task& task, const User& user, bool writes) {
    const WindowProgram::Part& first = program.sources[at(task.source)];
    for (int i = 0; writes && i < task.to_count; ++i) {
      const int to = program.destinations[at(task.to + i)];
      const bool stays =
          in_place_ && task.source_count == 1 && first.rank == to && first.blocks.first == task.dst.first;
      if (!stays) touch(to, task.dst, user, true);
    }
    for (int i = 0; !writes && i < task.source_count; ++i)
      touch(program.sources[at(task.source + i)].rank, program.sources[at(task.source + i)].blocks, user, false);
  }

  void touch(int owner, const Blocks& blocks, const User& by, bool writes) {
    const std::size_t buffer = !in_place_ && blocks.buffer == Buffer::output ? 1 : 0;
    for (int i = 0; i < blocks.count && problems_.empty(); ++i) {
      User& writer = writer_[(2 * at(owner) + buffer) * blocks_ + at(blocks.first + i)];
      if (writer.rank != none && writer != by)
        problems_.push_back("rank " + std::to_string(by.rank) + " touches block " + std::to_string(blocks.first + i) +
                            " of rank " + std::to_string(owner) + ", which rank " + std::to_string(writer.rank) +
                            " writes" + (in_place_ ? " (in place)" : ""));
      if (writes) writer = by;
    }
  }

  std::size_t blocks_;
  bool in_place_;
  std::vector<User> writer_;
  std::vector<std::string> problems_;
};

}  // namespace

Verdict check_board(Collective collective, const Shape& shape, std::span<const BoardProgram> programs, Claims claims) {
  Verdict verdict;
  verdict.problems = Layout{programs, shape.ranks * shape.pipeline}.problems();
  if (!verdict.ok()) return verdict;
  Plans plans{collective, shape, programs.size()};
  plans.add(programs);
  return check(collective, std::move(plans).build(), claims);
}

Verdict check_windows(Collective collective, const Shape& shape, std::span<const WindowProgram> programs, Claims claims,
                      bool also_in_place) {
  Verdict verdict;
  for (const bool in_place : {false, true}) {
    if (in_place && (!also_in_place || collective == Collective::all_to_all)) continue;
    verdict.problems = SharedBlocks{programs.size(), at(shape.ranks * shape.pipeline), in_place}.problems(programs);
    if (!verdict.ok()) return verdict;
  }
  Plans plans{collective, shape, programs.size()};
  plans.add(programs);
  return check(collective, std::move(plans).build(), claims);
}

}  // namespace tutti::algorithms
