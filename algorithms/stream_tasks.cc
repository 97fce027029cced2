#include "algorithms/stream_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/index.h"
#include "tutti/error.h"

namespace tutti::algorithms {
namespace {

using Area = StreamPlace::Area;
using Kind = StreamCommand::Kind;
using Part = WindowProgram::Part;
using Task = WindowProgram::Task;

void add_once(std::vector<Blocks>& all, const Blocks& blocks) {
  if (std::find(all.begin(), all.end(), blocks) == all.end()) all.push_back(blocks);
}

/// A task with its operands.
struct Draft {
  Blocks dst;
  std::vector<Part> sources;
  std::vector<int> to;
};

WindowProgram program_of(const std::vector<Draft>& drafts, int rank) {
  WindowProgram made;
  for (const Draft& draft : drafts) {
    made.tasks.push_back({draft.dst, static_cast<int>(made.sources.size()), static_cast<int>(draft.sources.size()),
                          static_cast<int>(made.destinations.size()), static_cast<int>(draft.to.size())});
    made.sources.insert(made.sources.end(), draft.sources.begin(), draft.sources.end());
    const auto first = made.destinations.insert(made.destinations.end(), draft.to.begin(), draft.to.end());
    std::stable_partition(first, made.destinations.end(), [rank](int to) { return to == rank; });
  }
  return made;
}

}  // namespace

std::vector<int> first_on_gpus(int ranks, int gpus) {
  std::vector<int> made;
  for (int rank = 0; rank < ranks; ++rank)
    made.push_back(rank > 0 && (rank - 1) * gpus / ranks == rank * gpus / ranks ? made.back() : rank);
  return made;
}

std::vector<WindowProgram> run_by(std::span<const WindowProgram> programs, std::span<const int> runners) {
  std::vector<std::vector<Draft>> drafts(programs.size());
  for (std::size_t rank = 0; rank < programs.size(); ++rank)
    for (const Task& task : programs[rank].tasks) {
      const auto sources = std::span{programs[rank].sources}.subspan(at(task.source), at(task.source_count));
      const auto to = std::span{programs[rank].destinations}.subspan(at(task.to), at(task.to_count));
      std::vector<Draft>& of_runner = drafts[at(runners[rank])];
      const auto same = std::ranges::find_if(of_runner, [&](const Draft& draft) {
        return draft.dst == task.dst && std::ranges::equal(draft.sources, sources);
      });
      if (same == of_runner.end())
        of_runner.push_back({task.dst, {sources.begin(), sources.end()}, {to.begin(), to.end()}});
      else
        same->to.insert(same->to.end(), to.begin(), to.end());
    }
  std::vector<WindowProgram> made;
  bool shares_input = false, shares_output = false;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    made.push_back(program_of(drafts[rank], static_cast<int>(rank)));
    made.back().others = programs[rank].others;
    for (const Part& source : made.back().sources)
      if (at(source.rank) != rank) (source.blocks.buffer == Buffer::input ? shares_input : shares_output) = true;
    for (const int to : made.back().destinations) shares_output = shares_output || at(to) != rank;
  }
  for (WindowProgram& program : made) program.shares_input = shares_input, program.shares_output = shares_output;
  return made;
}

bool collide_in_place(std::span<const WindowProgram> programs, std::size_t blocks) {
  constexpr int none = -1;
  std::vector<int> writers(programs.size() * blocks, none);
  const auto each = [&](const auto& use) {
    int number = 0;
    for (const WindowProgram& program : programs)
      for (const Task& task : program.tasks) use(program, task, number++);
  };
  const auto moves_nothing = [](const WindowProgram& program, const Task& task, int to) {
    const Part& source = program.sources[at(task.source)];
    return task.source_count == 1 && source.rank == to && source.blocks.first == task.dst.first;
  };
  bool collide = false;
  each([&](const WindowProgram& program, const Task& task, int number) {
    for (const int to : std::span{program.destinations}.subspan(at(task.to), at(task.to_count)))
      for (int block = task.dst.first; block < task.dst.first + task.dst.count; ++block)
        if (!moves_nothing(program, task, to)) {
          int& writer = writers[at(to) * blocks + at(block)];
          collide = collide || writer != none;
          writer = number;
        }
  });
  each([&](const WindowProgram& program, const Task& task, int number) {
    for (const Part& source : std::span{program.sources}.subspan(at(task.source), at(task.source_count)))
      for (int i = 0; i < source.blocks.count; ++i) {
        const int writer = writers[at(source.rank) * blocks + at(source.blocks.first + i)];
        const bool in_step = writer == number && source.blocks.first == task.dst.first;  // element by element
        collide = collide || (writer != none && !in_step);
      }
  });
  return collide;
}

StreamTasks::StreamTasks(int rank, std::span<const WindowProgram> programs, const StreamSizes& sizes,
                         const TaskStages& stages, std::size_t staging, std::uint32_t slots)
    : rank_(rank), programs_(programs), sizes_(sizes), stages_(stages), slots_(slots), copies_(programs.size()) {
  find_copies();
  std::size_t most = 0, largest = 0;
  for (const Copies& copies : copies_) most = std::max(most, copies.read.size() + copies.written.size());
  for (const WindowProgram& program : programs_)
    for (const Task& task : program.tasks) largest = std::max(largest, size_of(task.dst));
  piece_ = most == 0 ? std::numeric_limits<std::size_t>::max() : staging / most / aligned_elements * aligned_elements;
  if (piece_ == 0)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("a staging area of {} elements is too small: it takes {} or more, {} for each range",
                            staging, most * aligned_elements, aligned_elements)};
  rounds_ = largest / piece_ + (largest % piece_ != 0 ? 1 : 0);
}

std::span<const Part> StreamTasks::sources(const WindowProgram& program, const Task& task) const {
  return std::span{program.sources}.subspan(at(task.source), at(task.source_count));
}

std::span<const int> StreamTasks::destinations(const WindowProgram& program, const Task& task) const {
  return std::span{program.destinations}.subspan(at(task.to), at(task.to_count));
}

/// Whether `runner` reads a copy of the source.
bool StreamTasks::copies(int runner, const Part& source) const {
  const bool is_input = source.blocks.buffer == Buffer::input;
  if (is_input && stages_.all_by_copies) return true;
  return source.rank != runner && (is_input ? stages_.copies_input : stages_.copies_output);
}

void StreamTasks::find_copies() {
  for (std::size_t runner = 0; runner < programs_.size(); ++runner)
    for (const Task& task : programs_[runner].tasks) {
      for (const Part& source : sources(programs_[runner], task))
        if (copies(static_cast<int>(runner), source)) add_once(copies_[at(source.rank)].read, source.blocks);
      for (const int to : destinations(programs_[runner], task))
        if (stages_.copies_output && at(to) != runner) add_once(copies_[at(to)].written, task.dst);
    }
}

bool StreamTasks::uses(int runner, int owner) const {
  const WindowProgram& program = programs_[at(runner)];
  return runner != owner &&
         (std::ranges::any_of(program.sources, [owner](const Part& source) { return source.rank == owner; }) ||
          std::ranges::count(program.destinations, owner) > 0);
}

std::size_t StreamTasks::begin_of(const Blocks& blocks) const {
  return (blocks.buffer == Buffer::output ? sizes_.output : sizes_.input)[at(blocks.first)];
}

std::size_t StreamTasks::size_of(const Blocks& blocks) const {
  return (blocks.buffer == Buffer::output ? sizes_.output : sizes_.input)[at(blocks.first + blocks.count)] -
         begin_of(blocks);
}

/// Makes the commands of one round.
class StreamTasks::Round {
 public:
  Round(const StreamTasks& program, std::size_t round, StreamCounters& counters, StreamCommands& to)
      : program_(program), skipped_(round * program.piece_), counters_(counters), to_(to) {}

  void add() {
    const Copies& copies = program_.copies_[at(program_.rank_)];
    for (const Blocks& range : copies.read)
      add_data(Kind::copy, {own(range)}, {copy_of(program_.rank_, range, false)}, elements_of(range));
    const std::size_t begin = to_.all.size();
    each_peer([&](int peer) {
      if (!program_.uses(peer, program_.rank_)) return;
      std::uint64_t& sent = counters_.sent[at(peer)];
      if (sent >= program_.slots_) add_command(Kind::wait_credit, peer, sent + 1 - program_.slots_);
      add_command(Kind::signal_arrival, peer, ++sent);
    });
    add_tasks();
    each_peer([&](int peer) {
      if (program_.uses(peer, program_.rank_)) add_command(Kind::wait_credit, peer, counters_.sent[at(peer)]);
    });
    if (program_.stages_.in_kernels) note_kernel(begin);
    for (const Blocks& range : copies.written)
      add_data(Kind::copy, {copy_of(program_.rank_, range, true)}, {own(range)}, elements_of(range));
  }

 private:
  /// Of the commands from `begin` on, if one of them is a kernel, and all others signals and waits.
  void note_kernel(std::size_t begin) {
    const std::span<const StreamCommand> commands = std::span{to_.all}.subspan(begin);
    const auto kernels = std::ranges::count(commands, Kind::whole, &StreamCommand::kind);
    const auto copies = std::ranges::count(commands, Kind::copy, &StreamCommand::kind);
    if (kernels == 1 && copies == 0 && commands.size() > 1) to_.in_kernels.push_back({begin, to_.all.size()});
  }

  void add_tasks() {
    const WindowProgram& program = program_.programs_[at(program_.rank_)];
    const auto each_owner = [&](const auto& use) {
      each_peer([&](int peer) {
        if (program_.uses(program_.rank_, peer)) use(peer);
      });
    };
    each_owner([&](int peer) { add_command(Kind::wait_arrival, peer, ++counters_.received[at(peer)]); });
    for (const Task& task : program.tasks) {
      std::vector<StreamPlace> sources, outputs;
      for (const Part& source : program_.sources(program, task)) sources.push_back(place_of(source));
      for (const int to : program_.destinations(program, task)) outputs.push_back(place_of_output(to, task.dst));
      add_data(program_.stages_.reduces ? Kind::whole : Kind::copy, sources, outputs, elements_of(task.dst));
    }
    each_owner([&](int peer) { add_command(Kind::signal_credit, peer, counters_.received[at(peer)]); });
  }

  template <class Use>
  void each_peer(const Use& use) const {
    for (int peer = 0; peer < static_cast<int>(program_.programs_.size()); ++peer)
      if (peer != program_.rank_) use(peer);
  }

  std::size_t elements_of(const Blocks& range) const {
    const std::size_t size = program_.size_of(range);
    return std::min(program_.piece_, size - std::min(size, skipped_));
  }

  StreamPlace own(const Blocks& range) const {
    return {range.buffer == Buffer::input ? Area::input : Area::output, -1, 0, program_.begin_of(range) + skipped_};
  }

  StreamPlace copy_of(int owner, const Blocks& range, bool is_written) const {
    const Copies& copies = program_.copies_[at(owner)];
    const std::vector<Blocks>& all = is_written ? copies.written : copies.read;
    const auto number = static_cast<std::size_t>(std::ranges::find(all, range) - all.begin());
    return {Area::staging, owner, 0, ((is_written ? copies.read.size() : 0) + number) * program_.piece_};
  }

  StreamPlace at_peer(int owner, const Blocks& range) const {
    return {range.buffer == Buffer::input ? Area::peer_input : Area::peer_output, owner, 0,
            program_.begin_of(range) + skipped_};
  }

  StreamPlace place_of(const Part& source) const {
    if (program_.copies(program_.rank_, source)) return copy_of(source.rank, source.blocks, false);
    return source.rank == program_.rank_ ? own(source.blocks) : at_peer(source.rank, source.blocks);
  }

  StreamPlace place_of_output(int to, const Blocks& dst) const {
    if (to == program_.rank_) return own(dst);
    return program_.stages_.copies_output ? copy_of(to, dst, true) : at_peer(to, dst);
  }

  void add_command(Kind kind, int peer, std::uint64_t value) {
    to_.all.push_back({.kind = kind, .peer = peer, .value = value});
  }

  void add_data(Kind kind, const std::vector<StreamPlace>& sources, const std::vector<StreamPlace>& outputs,
                std::size_t elements) {
    if (elements == 0) return;
    to_.all.push_back({.kind = kind,
                       .sources = static_cast<std::uint8_t>(sources.size()),
                       .outputs = static_cast<std::uint8_t>(outputs.size()),
                       .elements = elements,
                       .first = to_.places.size()});
    to_.places.insert(to_.places.end(), sources.begin(), sources.end());
    to_.places.insert(to_.places.end(), outputs.begin(), outputs.end());
  }

  const StreamTasks& program_;
  const std::size_t skipped_;  // elements of each range, by earlier rounds
  StreamCounters& counters_;
  StreamCommands& to_;
};

void StreamTasks::add_round(std::size_t round, StreamCounters& counters, StreamCommands& to) const {
  Round{*this, round, counters, to}.add();
}

}  // namespace tutti::algorithms
