// A foreign program as plans: instructions in an executable order, and chunks as places. Only the waits of the program
// itself are used. None is added, so that the checker finds its races.

#include "cli/plan/interchange/msccl_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithms/catalogue.h"
#include "algorithms/describe.h"
#include "algorithms/plan_assemble.h"
#include "cli/plan/interchange/msccl_places.h"
#include "tutti/error.h"

namespace tutti::cli::interchange {
namespace {

using algorithms::Blocks;
using algorithms::Buffer;
using algorithms::Edge;
using algorithms::Plan;
using algorithms::Step;
using algorithms::StepId;

constexpr std::size_t most_touched = 10'000'000;  // blocks, by all instructions together

/// The blocks that an instruction uses.
struct Touched {
  std::vector<Spot> dst, left, right;
};

/// One rank's plan under construction.
struct Draft {
  std::vector<Step> steps;
  std::vector<std::string> names;
  std::vector<Edge> edges;
  StepId add(const Step& step, std::string name) {
    steps.push_back(step);
    names.push_back(std::move(name));
    return static_cast<StepId>(steps.size() - 1);
  }
};

class Import {
 public:
  explicit Import(const MscclProgram& program)
      : program_(program), cut_(Cut::of(program)), atoms_(put_in_order(program)), drafts_(program.gpus.size()) {
    for (int rank = 0; rank < cut_.shape.ranks; ++rank) places_.emplace_back(program, cut_, rank);
  }

  void run(std::vector<Plan>& plans, algorithms::StepNames& names) {
    limit();
    for (const std::size_t id : atoms_.order) places(id).announce(atoms_.all[id]);
    find_touched();
    for (Places& its : places_) its.number_slots();
    for (int rank = 0; rank < cut_.shape.ranks; ++rank) begin(rank);
    exits_.resize(atoms_.all.size());
    for (const std::size_t id : atoms_.order) emit(id);
    for (int rank = 0; rank < cut_.shape.ranks; ++rank) {
      Draft& draft = drafts_[index(rank)];
      end(rank);
      keep_apart(rank);
      plans.push_back(algorithms::assemble(cut_.shape_of(rank), std::move(draft.steps), std::move(draft.edges),
                                           places_[index(rank)].scratch_like()));
      names.push_back(std::move(draft.names));
    }
  }

  const Cut& cut() const { return cut_; }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  Places& places(std::size_t id) { return places_[index(atoms_.all[id].rank)]; }

  void limit() const {
    std::size_t touched = 0;
    for (const Atom& atom : atoms_.all) {
      if (atom.count > cut_.chunks + program_.gpus[index(atom.rank)].s_chunks)
        throw Error{ErrorCode::invalid_argument,
                    fmt::format("{}: moves {} chunks, more than this rank has", name_of(program_, atom), atom.count)};
      touched += index(atom.count) * index(cut_.blocks_per_chunk);
      if (touched > most_touched) throw Error{ErrorCode::invalid_argument, "the program is too large to look at"};
    }
  }

  /// Tracks which block is where.
  void find_touched() {
    touched_.resize(atoms_.all.size());
    std::vector<std::vector<int>> messages(atoms_.all.size());  // per send: numbers of the blocks
    std::vector<int> numbers, other;
    for (const std::size_t id : atoms_.order) {
      const Atom& atom = atoms_.all[id];
      if (atom.waits_only) continue;
      Touched& touched = touched_[id];
      if (algorithms::reads_left(atom.verb)) touched.left = places(id).read(atom, atom.left, numbers);
      if (algorithms::reads_right(atom.verb)) touched.right = places(id).read(atom, atom.right, other);
      if (algorithms::sends(atom.verb)) messages[id] = numbers;
      if (atom.verb == algorithms::Verb::recv) numbers = std::move(messages[atom.partner]);
      if (algorithms::writes_dst(atom.verb)) touched.dst = places(id).write(atom, atom.dst, numbers);
    }
  }

  Blocks block(int rank, const Spot& spot) const {
    const bool slot = spot.buffer == Buffer::scratch;
    return {spot.buffer, slot ? places_[index(rank)].slot_of(spot.block) : spot.block, 1};
  }

  /// First steps: copies input that will be overwritten to scratch.
  void begin(int rank) {
    for (const auto& [from, key] : places_[index(rank)].aside())
      copy(rank, {Buffer::scratch, places_[index(rank)].slot_of(key), 1}, from, "copy of input put aside");
  }

  /// Last steps: copies results that are already in their place, unless the buffers are separate.
  void end(int rank) {
    for (const int from : places_[index(rank)].never_moved())
      copy(rank, {Buffer::output, from, 1}, from, "copy of what stays in place");
  }

  /// Copies a block of the input, merged with the copies of its neighbours before it.
  void copy(int rank, Blocks dst, int from, const char* name) {
    Draft& draft = drafts_[index(rank)];
    if (!draft.steps.empty() && draft.names.back() == name) {
      Step& last = draft.steps.back();
      if (last.dst.first + last.dst.count == dst.first && last.left.first + last.left.count == from) {
        ++last.dst.count;
        ++last.left.count;
        return;
      }
    }
    draft.add({algorithms::Verb::copy, -1, dst, {input_buffer(), from, 1}, {}}, name);
  }

  /// Our broadcast has no input: the root's output holds its data.
  Buffer input_buffer() const { return cut_.collective == Collective::broadcast ? Buffer::output : Buffer::input; }

  /// The blocks of an operand are not contiguous from `end` on.
  bool is_cut(int rank, const std::vector<Spot>& spots, std::size_t at) const {
    if (spots.empty()) return false;
    const Blocks before = block(rank, spots[at - 1]);
    const Blocks here = block(rank, spots[at]);
    return before.buffer != here.buffer || before.first + 1 != here.first;
  }
  bool is_cut(std::size_t id, std::size_t at) const {
    const int rank = atoms_.all[id].rank;
    const Touched& touched = touched_[id];
    return is_cut(rank, touched.dst, at) || is_cut(rank, touched.left, at) || is_cut(rank, touched.right, at);
  }

  /// Emits the steps of an instruction: one, or several one after the other if it uses separate places.
  void emit(std::size_t id) {
    const Atom& atom = atoms_.all[id];
    Draft& draft = drafts_[index(atom.rank)];
    std::vector<StepId> before;
    for (const std::size_t other : atom.after) before.insert(before.end(), exits_[other].begin(), exits_[other].end());
    if (!atom.waits_only) {
      const std::size_t end = index(atom.count * cut_.blocks_per_chunk);
      const bool is_message = !algorithms::is_local(atom.verb);
      for (std::size_t from = 0, to = 1; from < end; from = to++) {
        while (to < end && !is_cut(id, to) && !(is_message && is_cut(atom.partner, to))) ++to;
        const Step step{atom.verb, atom.peer, range(atom.rank, touched_[id].dst, from, to),
                        range(atom.rank, touched_[id].left, from, to), range(atom.rank, touched_[id].right, from, to)};
        if (step.verb == algorithms::Verb::copy && step.dst == step.left) continue;
        const std::string name = name_of(program_, atom);
        const StepId made = draft.add(step, name.substr(name.find("thread")));
        for (const StepId other : before) draft.edges.push_back({other, made});
        before.assign(1, made);
      }
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    exits_[id] = std::move(before);
  }

  Blocks range(int rank, const std::vector<Spot>& spots, std::size_t from, std::size_t to) const {
    if (spots.empty()) return {};
    Blocks blocks = block(rank, spots[from]);
    blocks.count = static_cast<int>(to - from);
    return blocks;
  }

  /// Adds the order that the file cannot express. Steps that use our own copies come after them. The output is written
  /// only after the input in its place has been read, by our own copies or by a program for separate buffers.
  void keep_apart(int rank) {
    Draft& draft = drafts_[index(rank)];
    std::vector<StepId> maker(places_[index(rank)].scratch_like().size(), algorithms::no_step);
    std::vector<std::vector<StepId>> readers(index(cut_.blocks()));
    std::vector<bool> is_written(index(cut_.blocks()), false);
    const auto each = [](const Blocks& blocks, Buffer buffer, auto call) {
      if (blocks.buffer == buffer)
        for (int i = 0; i < blocks.count; ++i) call(index(blocks.first + i));
    };
    for (StepId id = 0; id < draft.steps.size(); ++id) {
      const Step& step = draft.steps[id];
      const bool ours = !draft.names[id].starts_with("thread");
      for (const Blocks* blocks : {&step.left, &step.right, &step.dst})
        each(*blocks, Buffer::scratch, [&](std::size_t slot) {
          if (maker[slot] != algorithms::no_step) draft.edges.push_back({maker[slot], id});
          if (ours) maker[slot] = id;
        });
      if (algorithms::writes_dst(step.verb))
        each(step.dst, Buffer::output, [&](std::size_t at) {
          if (!is_written[at])
            for (const StepId reader : readers[at])
              if (cut_.mended || ours || !draft.names[reader].starts_with("thread"))
                draft.edges.push_back({reader, id});
          is_written[at] = true;
        });
      for (const Blocks* blocks : {&step.left, &step.right})
        each(*blocks, input_buffer(), [&](std::size_t at) { readers[at].push_back(id); });
    }
  }

  const MscclProgram& program_;
  const Cut cut_;
  const Atoms atoms_;
  std::vector<Places> places_;              // per rank
  std::vector<Touched> touched_;            // per atom
  std::vector<std::vector<StepId>> exits_;  // per atom: the steps that are complete when it is
  std::vector<Draft> drafts_;               // per rank
};

/// A single word that no algorithm of the catalogue uses as its name.
std::string usable_name(Collective collective, const std::string& name) {
  std::string word;
  for (const char c : name) word += algorithms::may_be_in_name(c) ? c : '_';
  if (word.empty()) word = "imported";
  if (word.size() > algorithms::longest_name) word.resize(algorithms::longest_name);
  for (const algorithms::Entry& entry : algorithms::catalogue(collective))
    if (entry.name == word) return "own_" + word;
  return word;
}

}  // namespace

algorithms::CheckedPlans import_program(const MscclProgram& program) {
  algorithms::CheckedPlans imported;
  Import import{program};
  algorithms::GivenPlans& given = imported.given;
  import.run(given.plans, imported.names);
  given.collective = import.cut().collective;
  given.name = usable_name(given.collective, program.name);
  const auto prove = [&](algorithms::Claims claims) {
    return check(given.collective, given.plans, claims, &imported.names);
  };
  imported.verdict = prove({});
  if (!imported.verdict.ok() && given.collective == Collective::all_to_all) {
    imported.verdict = prove({.equal_parts = true});
    given.equal_parts = true;
  }
  given.rank_order =
      detail::is_reduction(given.collective) && imported.verdict.ok() && prove({.rank_order = true}).ok();
  return imported;
}

}  // namespace tutti::cli::interchange
