#include "algorithms/stream_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace tutti::algorithms {
namespace {

using Area = StreamPlace::Area;
using Kind = StreamCommand::Kind;

constexpr int garbage = 0xA5;
constexpr std::size_t most_operands = 32;

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }
constexpr bool is_slot(Area area) { return area == Area::incoming || area == Area::outgoing; }

}  // namespace

void StreamCounts::add(const StreamCommands& of, const StreamCommand& command) {
  ++commands;
  if (command.kind == Kind::wait_arrival || command.kind == Kind::wait_credit) ++waits;
  if (command.kind == Kind::signal_arrival || command.kind == Kind::signal_credit) ++signals;
  elements_read += command.sources * command.elements;
  elements_written += command.outputs * command.elements;
  for (const StreamPlace& output : of.outputs(command))
    if (output.area == Area::outgoing) elements_sent += command.elements;
}

StreamMachine::StreamMachine(int ranks, const StreamSlots& slots, StreamArithmetic arithmetic)
    : slots_(slots), arithmetic_(std::move(arithmetic)), streams_(at(ranks)), links_(at(ranks) * at(ranks)) {}

void StreamMachine::enqueue(int rank, const StreamCommands& commands, const StreamMemory& memory) {
  streams_[at(rank)].segments.push_back({&commands, &memory});
}

std::string StreamMachine::run(const StreamOrder& order) {
  random_.seed(order.number);
  last_ = -1;
  while (const std::optional<int> rank = choose(order)) {
    const StreamCommand command = *next(*rank);
    if (std::string trouble = execute(*rank, command); !trouble.empty()) return where(*rank, command) + trouble;
    counts_.add(*streams_[at(*rank)].segments[streams_[at(*rank)].segment].commands, command);
    ++streams_[at(*rank)].command;
    last_ = *rank;
  }
  std::string trouble = deadlock();
  return trouble.empty() ? left_over() : trouble;
}

/// The command at the head of a stream, or null at its end.
const StreamCommand* StreamMachine::next(int rank) {
  Stream& stream = streams_[at(rank)];
  while (stream.segment < stream.segments.size()) {
    const StreamCommands& commands = *stream.segments[stream.segment].commands;
    if (stream.command < commands.all.size()) return &commands.all[stream.command];
    ++stream.segment;
    stream.command = 0;
  }
  return nullptr;
}

bool StreamMachine::is_blocked(int rank, const StreamCommand& command) {
  if (command.kind == Kind::wait_arrival) return link(command.peer, rank).arrived < command.value;
  if (command.kind == Kind::wait_credit) return link(rank, command.peer).freed < command.value;
  return false;
}

std::optional<int> StreamMachine::choose(const StreamOrder& order) {
  const int ranks = static_cast<int>(streams_.size());
  const bool backwards = order.kind == StreamOrder::Kind::backwards;
  int first = backwards ? last_ + ranks - 1 : last_ + 1;
  if (backwards && last_ < 0) first = ranks - 1;
  if (order.kind == StreamOrder::Kind::one_first) first = static_cast<int>(order.number);
  if (order.kind == StreamOrder::Kind::random) first = std::uniform_int_distribution{0, ranks - 1}(random_);
  for (int i = 0; i < ranks; ++i) {
    const int rank = (first + (backwards ? ranks - i : i)) % ranks;
    const StreamCommand* const command = next(rank);
    if (command && !is_blocked(rank, *command)) return rank;
  }
  return {};
}

std::string StreamMachine::execute(int rank, const StreamCommand& command) {
  switch (command.kind) {
    case Kind::wait_arrival: {
      Link& from = link(command.peer, rank);
      from.awaited = std::max(from.awaited, command.value);
      return {};
    }
    case Kind::wait_credit: {
      Link& to = link(rank, command.peer);
      to.allowed = std::max(to.allowed, command.value);
      return {};
    }
    case Kind::signal_arrival:
    case Kind::signal_credit:
      return signal(rank, command);
    default:
      return compute(rank, command);
  }
}

std::string StreamMachine::signal(int rank, const StreamCommand& command) {
  const bool arrives = command.kind == Kind::signal_arrival;
  Link& used = arrives ? link(rank, command.peer) : link(command.peer, rank);
  std::uint64_t& counter = arrives ? used.arrived : used.freed;
  if (command.value != counter + 1) return fmt::format("the counter is at {}", counter);
  if (arrives && command.value > used.allowed + slots_.count)
    return fmt::format("there is credit for {} messages only", used.allowed + slots_.count);
  if (!arrives && command.value > used.awaited) return "it frees the slot of a message for which it has not waited";
  ++counter;
  if (!arrives && !used.slots.empty())
    std::memset(used.slots.data() + (command.value - 1) % slots_.count * slot_bytes(), garbage, slot_bytes());
  return {};
}

std::string StreamMachine::compute(int rank, const StreamCommand& command) {
  const StreamCommands& commands = *streams_[at(rank)].segments[streams_[at(rank)].segment].commands;
  std::array<const std::byte*, most_operands> sources{};
  const std::span<const StreamPlace> from = commands.sources(command), to = commands.outputs(command);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::byte* bytes = nullptr;
    if (std::string trouble = find(rank, from[i], command.elements, bytes); !trouble.empty()) return trouble;
    sources[i] = bytes;
  }
  for (const StreamPlace& place : to) {
    std::byte* bytes = nullptr;
    if (std::string trouble = find(rank, place, command.elements, bytes); !trouble.empty()) return trouble;
    if (command.kind == Kind::copy || &place != to.data())
      std::memmove(bytes, sources[0], command.elements * arithmetic_.sum_size);
    else if (command.kind == Kind::fold)
      arithmetic_.fold(bytes, std::span{sources}.first(from.size()), command.elements);
    else
      (command.kind == Kind::scale ? arithmetic_.scale : arithmetic_.divide)(bytes, sources[0], command.elements);
    if (command.kind == Kind::fold) sources[0] = bytes;  // further outputs are copies of the first
  }
  return {};
}

std::string StreamMachine::find(int rank, const StreamPlace& place, std::size_t elements, std::byte*& bytes) {
  if (is_slot(place.area)) return find_in_slot(rank, place, elements, bytes);
  const StreamMemory& memory = *streams_[at(rank)].segments[streams_[at(rank)].segment].memory;
  const StreamMemory::Part& part = place.area == Area::input    ? memory.input
                                   : place.area == Area::output ? memory.output
                                                                : memory.scratch;
  if (place.offset < part.first || place.offset + elements > part.first + part.elements)
    return fmt::format("elements {} to {} are outside of {} to {}", place.offset, place.offset + elements, part.first,
                       part.first + part.elements);
  bytes = part.data + (place.offset - part.first) * part.element_size;
  return {};
}

/// A slot may be read between the wait for its message and the signal that frees it, and written between the wait for
/// its credit and the signal of its arrival.
std::string StreamMachine::find_in_slot(int rank, const StreamPlace& place, std::size_t elements, std::byte*& bytes) {
  const bool reads = place.area == Area::incoming;
  Link& used = reads ? link(place.peer, rank) : link(rank, place.peer);
  const std::uint64_t message = reads ? used.freed : used.arrived;  // the next one, counted from 0
  if (reads && message >= used.awaited) return "it reads a slot before it has waited for the message";
  if (!reads && message >= used.allowed + slots_.count) return "it overwrites a slot before it has waited for credit";
  if (place.slot != message % slots_.count)
    return fmt::format("slot {} is not that of the next message, {}", place.slot, message % slots_.count);
  if (place.offset + elements > slots_.elements)
    return fmt::format("elements {} to {} are outside of a slot of {}", place.offset, place.offset + elements,
                       slots_.elements);
  if (used.slots.empty()) used.slots.assign(slots_.count * slot_bytes(), std::byte{garbage});
  bytes = used.slots.data() + place.slot * slot_bytes() + place.offset * arithmetic_.sum_size;
  return {};
}

std::string StreamMachine::where(int rank, const StreamCommand& command) const {
  const Stream& stream = streams_[at(rank)];
  return fmt::format("rank {} call {} command {} ({}): ", rank, stream.segment, stream.command,
                     to_string(*stream.segments[stream.segment].commands, command));
}

std::string StreamMachine::deadlock() {
  std::string text;
  for (int rank = 0; rank < static_cast<int>(streams_.size()); ++rank)
    if (const StreamCommand* command = next(rank))
      text += (text.empty() ? "deadlock: " : "; ") + where(rank, *command) + "waits forever";
  return text;
}

/// After a call every link is empty.
std::string StreamMachine::left_over() {
  const int ranks = static_cast<int>(streams_.size());
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      if (const Link& used = link(from, to); used.arrived != used.freed)
        return fmt::format("rank {} has sent {} messages to rank {}, which has freed the slots of {}", from,
                           used.arrived, to, used.freed);
  return {};
}

}  // namespace tutti::algorithms
