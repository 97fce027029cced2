#include "algorithms/stream_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "algorithms/describe.h"
#include "lib/base/collective_traits.h"
#include "lib/base/index.h"
#include "tutti/error.h"

namespace tutti::algorithms {
namespace {

using Area = StreamPlace::Area;
using Kind = StreamCommand::Kind;

constexpr std::size_t round_up(std::size_t elements) {
  return (elements + aligned_elements - 1) / aligned_elements * aligned_elements;
}

std::size_t largest_piece(const StreamSlots& slots, std::size_t units) {
  const std::size_t piece = slots.elements / units;
  if (piece == 0)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("a slot of {} elements is too small: a message takes {} or more, one for each unit",
                            slots.elements, units)};
  return piece < aligned_elements ? piece : piece / aligned_elements * aligned_elements;
}

}  // namespace

StreamProgram::StreamProgram(Collective collective, const Plan& plan, const StreamUnits& units,
                             const StreamSizes& sizes, const StreamStages& stages, const StreamSlots& slots)
    : collective_(collective), plan_(plan), units_(units), sizes_(sizes), stages_(stages), slots_(slots) {
  if (collective == Collective::barrier) {
    rounds_ = 1;
    return;
  }
  piece_ = largest_piece(slots, units.most_in_message());
  std::size_t largest = 0;
  for (const Buffer buffer : {Buffer::input, Buffer::output})
    units.for_each(plan, {buffer, 0, plan.shape.ranks * plan.shape.pipeline},
                   [&](const Blocks& unit) { largest = std::max(largest, size_of(unit)); });
  rounds_ = (largest + piece_ - 1) / piece_;
  scratch_at_ = lay_out({Buffer::scratch, 0, static_cast<int>(plan.scratch_like.size())});
  if (stages.input != StreamStages::Input::direct) staged_at_ = lay_out(held(Buffer::input));
  if (stages.sums_apart) sums_at_ = lay_out(held(Buffer::output));
}

/// The blocks of input or output that this rank has.
Blocks StreamProgram::held(Buffer buffer) const {
  const detail::CollectiveTraits& traits = detail::traits_of(collective_);
  const detail::BufferTraits& held = buffer == Buffer::input ? traits.input : traits.output;
  const Shape& shape = plan_.shape;
  if (!held.is_at(shape.rank, shape.root)) return {buffer, 0, 0};
  if (held.extent == detail::Extent::own_part) return {buffer, shape.rank * shape.pipeline, shape.pipeline};
  return {buffer, 0, shape.ranks * shape.pipeline};
}

std::size_t StreamProgram::size_of(const Blocks& unit) const {
  const std::vector<std::size_t>& begin = unit.buffer == Buffer::output ? sizes_.output : sizes_.input;
  const int first = unit.buffer == Buffer::scratch ? plan_.scratch_like[at(unit.first)] : unit.first;
  return begin[at(first + unit.count)] - begin[at(first)];
}

/// Elements of a unit's piece.
std::size_t StreamProgram::piece_of(const Blocks& unit, std::size_t round) const {
  const std::size_t size = size_of(unit);
  return std::min(piece_, size - std::min(size, round * piece_));
}

/// Finds room in scratch for a piece of each unit.
StreamProgram::Layout StreamProgram::lay_out(Blocks blocks) {
  Layout layout(at(blocks.first + blocks.count), 0);
  units_.for_each(plan_, blocks, [&](const Blocks& unit) {
    layout[at(unit.first)] = scratch_;
    scratch_ += round_up(piece_of(unit, 0));
  });
  return layout;
}

/// Makes the commands of one round.
class StreamProgram::Round {
 public:
  Round(const StreamProgram& program, std::size_t round, StreamCounters& counters, StreamCommands& to)
      : program_(program), round_(round), counters_(counters), to_(to) {}

  void add() {
    const StreamStages& stages = program_.stages_;
    if (stages.input != StreamStages::Input::direct)
      add_stage(stages.input == StreamStages::Input::scaled ? Kind::scale : Kind::copy, Buffer::input,
                program_.staged_at_, true);
    for (StepId id = 0; id < program_.plan_.steps.size(); ++id) add(id);
    step_ = no_step;
    if (stages.divides) add_stage(Kind::divide, Buffer::output, program_.sums_at_, false);
  }

 private:
  void add(StepId id) {
    const Step& step = program_.plan_.steps[id];
    step_ = id;
    begin_ = to_.all.size();
    switch (step.verb) {
      case Verb::send:
        return add_send(step);
      case Verb::recv:
      case Verb::recv_reduce:
        return add_receive(step);
      case Verb::copy:
        if (copies_onto_itself(step)) return;
        return each_unit(step.dst, [&](int i, std::size_t elements) {
          add_data(Kind::copy, {place(step.left, i)}, place(step.dst, i), elements);
        });
      case Verb::reduce:
        return each_unit(step.dst, [&](int i, std::size_t elements) {
          add_data(Kind::fold, {place(step.left, i), place(step.right, i)}, place(step.dst, i), elements);
        });
    }
  }

  void add_send(const Step& step) {
    if (!has_message(step.left)) return;
    std::uint64_t& sent = counters_.sent[at(step.peer)];
    const std::uint32_t slots = program_.slots_.count;
    if (sent >= slots) add_command(Kind::wait_credit, step.peer, sent + 1 - slots);
    StreamPlace slot{Area::outgoing, step.peer, static_cast<std::uint32_t>(sent % slots), 0};
    begin_ = to_.all.size();
    each_unit(step.left, [&](int i, std::size_t elements) {
      add_data(Kind::copy, {place(step.left, i)}, slot, elements);
      slot.offset += elements;
    });
    add_command(Kind::signal_arrival, step.peer, ++sent);
  }

  void add_receive(const Step& step) {
    if (!has_message(step.dst)) return;
    std::uint64_t& received = counters_.received[at(step.peer)];
    StreamPlace slot{Area::incoming, step.peer, static_cast<std::uint32_t>(received % program_.slots_.count), 0};
    add_command(Kind::wait_arrival, step.peer, ++received);
    begin_ = to_.all.size();
    each_unit(step.dst, [&](int i, std::size_t elements) {
      if (step.verb == Verb::recv)
        add_data(Kind::copy, {slot}, place(step.dst, i), elements);
      else
        add_data(Kind::fold, {place(step.left, i), slot}, place(step.dst, i), elements);
      slot.offset += elements;
    });
    add_command(Kind::signal_credit, step.peer, received);
  }

  /// Before the plan from the input to scratch, or after it from sums to the output.
  void add_stage(Kind kind, Buffer buffer, const Layout& layout, bool from_buffer) {
    begin_ = to_.all.size();
    program_.units_.for_each(program_.plan_, program_.held(buffer), [&](const Blocks& unit) {
      const StreamPlace outside = place_outside(unit);
      const StreamPlace inside = layout.empty() ? outside : StreamPlace{Area::scratch, -1, 0, layout[at(unit.first)]};
      add_data(kind, {from_buffer ? outside : inside}, from_buffer ? inside : outside, program_.piece_of(unit, round_));
    });
  }

  bool tokens() const { return program_.collective_ == Collective::barrier; }

  /// Calls `use` with each unit of the blocks that has elements in this round: its first block, counted from that of
  /// the blocks, and its elements. The tokens of a barrier have none.
  template <class Use>
  void each_unit(const Blocks& blocks, Use use) const {
    if (tokens()) return;
    program_.units_.for_each(program_.plan_, blocks, [&](const Blocks& unit) {
      if (const std::size_t elements = program_.piece_of(unit, round_)) use(unit.first - blocks.first, elements);
    });
  }

  bool has_message(const Blocks& blocks) const {
    bool has = tokens();
    each_unit(blocks, [&](int, std::size_t) { has = true; });
    return has;
  }

  bool copies_onto_itself(const Step& step) const {
    const StreamStages& stages = program_.stages_;
    return stages.in_place && stages.input == StreamStages::Input::direct && !stages.sums_apart &&
           step.left.buffer != Buffer::scratch && step.dst.buffer != Buffer::scratch &&
           step.left.first == step.dst.first;
  }

  StreamPlace place_outside(const Blocks& unit) const {
    const bool input = unit.buffer == Buffer::input;
    const std::size_t begin = (input ? program_.sizes_.input : program_.sizes_.output)[at(unit.first)];
    return {input ? Area::input : Area::output, -1, 0, begin + round_ * program_.piece_};
  }

  /// Where the piece of the unit lies that begins `i` blocks after the first.
  StreamPlace place(const Blocks& blocks, int i) const {
    const Blocks unit{blocks.buffer, blocks.first + i, 1};
    const Layout& layout = unit.buffer == Buffer::scratch  ? program_.scratch_at_
                           : unit.buffer == Buffer::output ? program_.sums_at_
                                                           : program_.staged_at_;
    if (layout.empty()) return place_outside(unit);
    return {Area::scratch, -1, 0, layout[at(unit.first)]};
  }

  void add_command(Kind kind, int peer, std::uint64_t value) {
    to_.all.push_back({.kind = kind, .peer = peer, .step = step_, .value = value});
  }

  /// Adds it to the command before if that is of the same step and its operands end where these begin.
  void add_data(Kind kind, std::initializer_list<StreamPlace> sources, const StreamPlace& output,
                std::size_t elements) {
    if (elements == 0) return;
    if (to_.all.size() > begin_ && continues(to_.all.back(), sources, output)) {
      to_.all.back().elements += elements;
      return;
    }
    to_.all.push_back({.kind = kind,
                       .sources = static_cast<std::uint8_t>(sources.size()),
                       .outputs = 1,
                       .step = step_,
                       .elements = elements,
                       .first = to_.places.size()});
    to_.places.insert(to_.places.end(), sources.begin(), sources.end());
    to_.places.push_back(output);
  }

  bool continues(const StreamCommand& command, std::initializer_list<StreamPlace> sources,
                 const StreamPlace& output) const {
    const auto follows = [&](StreamPlace before, const StreamPlace& place) {
      before.offset += command.elements;
      return before == place;
    };
    const std::span<const StreamPlace> before = to_.sources(command);
    return std::equal(before.begin(), before.end(), sources.begin(), sources.end(), follows) &&
           follows(to_.outputs(command).front(), output);
  }

  const StreamProgram& program_;
  const std::size_t round_;
  StreamCounters& counters_;
  StreamCommands& to_;
  StepId step_ = no_step;
  std::size_t begin_ = 0;  // the first command that add_data may extend
};

void StreamProgram::add_round(std::size_t round, StreamCounters& counters, StreamCommands& to) const {
  Round{*this, round, counters, to}.add();
}

// ---- For people ----------------------------------------------------------------------------------------------------

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"wait_arrival", "wait_credit", "signal_arrival", "signal_credit", "copy",
                                   "fold",         "scale",       "divide",         "whole"};
  return names[static_cast<std::size_t>(kind)];
}

std::string to_string(const StreamCommands& commands, const StreamCommand& command) {
  const auto text = [&](const StreamPlace& place) {
    constexpr const char* names[] = {"input", "output", "scratch", "", "", "input", "output", "staging"};
    const std::string range = fmt::format("[{}..{}]", place.offset, place.offset + command.elements - 1);
    if (place.area == Area::incoming) return fmt::format("slot {} from {} {}", place.slot, place.peer, range);
    if (place.area == Area::outgoing) return fmt::format("slot {} to {} {}", place.slot, place.peer, range);
    const std::string of_rank = place.peer < 0 ? "" : fmt::format(" of {} ", place.peer);
    return names[static_cast<std::size_t>(place.area)] + of_rank + range;
  };
  const auto list = [&](std::span<const StreamPlace> places) {
    std::string all;
    for (const StreamPlace& place : places) all += (all.empty() ? "" : ", ") + text(place);
    return all;
  };
  switch (command.kind) {
    case Kind::wait_arrival:
    case Kind::signal_credit:
      return fmt::format("{} {} from {}", name_of(command.kind), command.value, command.peer);
    case Kind::wait_credit:
    case Kind::signal_arrival:
      return fmt::format("{} {} to {}", name_of(command.kind), command.value, command.peer);
    default:
      return fmt::format("{} {} = {}", name_of(command.kind), list(commands.outputs(command)),
                         list(commands.sources(command)));
  }
}

}  // namespace tutti::algorithms
