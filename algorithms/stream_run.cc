#include "algorithms/stream_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lib/base/index.h"

namespace tutti::algorithms {
namespace {

using Area = StreamPlace::Area;
using Kind = StreamCommand::Kind;

constexpr int garbage = 0xA5;
constexpr std::size_t most_operands = 32;

constexpr bool is_slot(Area area) { return area == Area::incoming || area == Area::outgoing; }
constexpr bool is_of_peer(Area area) { return area == Area::peer_input || area == Area::peer_output; }

}  // namespace

void StreamCounts::add(const StreamCommands& of, const StreamCommand& command) {
  ++commands;
  if (command.kind == Kind::wait_arrival || command.kind == Kind::wait_credit) ++waits;
  if (command.kind == Kind::signal_arrival || command.kind == Kind::signal_credit) ++signals;
  elements_read += command.sources * command.elements;
  elements_written += command.outputs * command.elements;
  for (const StreamPlace& output : of.outputs(command))
    if (output.area == Area::outgoing || is_of_peer(output.area)) elements_sent += command.elements;
}

StreamMachine::StreamMachine(int ranks, const StreamSlots& slots, StreamArithmetic arithmetic)
    : slots_(slots),
      arithmetic_(std::move(arithmetic)),
      streams_(at(ranks)),
      links_(at(ranks) * at(ranks)),
      races_(ranks),
      element_size_(arithmetic_.sum_size) {}

void StreamMachine::share(std::size_t elements, std::size_t element_size) {
  element_size_ = element_size;
  staging_.assign(streams_.size(), std::vector<std::byte>(elements * element_size, std::byte{garbage}));
}

/// The number of the word that counts arrivals, or credits, of a link.
std::size_t StreamMachine::word(int from, int to, bool is_credit) const {
  return (at(from) * streams_.size() + at(to)) * 2 + (is_credit ? 1 : 0);
}

void StreamMachine::enqueue(int rank, const StreamCommands& commands, const StreamMemory& memory) {
  streams_[at(rank)].segments.push_back({&commands, &memory});
}

std::string StreamMachine::run(const StreamOrder& order) {
  random_.seed(order.number);
  last_ = -1;
  while (const std::optional<int> rank = choose(order)) {
    const StreamCommand command = *next(*rank);
    Stream& stream = streams_[at(*rank)];
    const StreamCommands& commands = *stream.segments[stream.segment].commands;
    std::string trouble = stream.command == 0 ? program_writes(*rank) : "";
    if (trouble.empty()) trouble = execute(*rank, command);
    if (!trouble.empty()) return where(*rank, command) + trouble;
    counts_.add(commands, command);
    ++stream.command;
    if (stream.command == commands.all.size())
      if (trouble = program_writes(*rank); !trouble.empty()) return where(*rank, command) + "after it, " + trouble;
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
  races_.step(rank);
  switch (command.kind) {
    case Kind::wait_arrival: {
      Link& from = link(command.peer, rank);
      from.awaited = std::max(from.awaited, command.value);
      races_.wait(rank, word(command.peer, rank, false), command.value);
      return {};
    }
    case Kind::wait_credit: {
      Link& to = link(rank, command.peer);
      to.allowed = std::max(to.allowed, command.value);
      races_.wait(rank, word(rank, command.peer, true), command.value);
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
  races_.signal(rank, arrives ? word(rank, command.peer, false) : word(command.peer, rank, true));
  if (!arrives && !used.slots.empty())
    std::memset(used.slots.data() + (command.value - 1) % slots_.count * slot_bytes(), garbage, slot_bytes());
  return {};
}

/// Bytes of the elements that a command moves.
std::size_t StreamMachine::width(const StreamCommands& commands, const StreamCommand& command) const {
  const auto holds_elements = [](const StreamPlace& place) {
    return is_of_peer(place.area) || place.area == Area::staging;
  };
  const bool elements = command.kind == Kind::whole || std::ranges::any_of(commands.sources(command), holds_elements) ||
                        std::ranges::any_of(commands.outputs(command), holds_elements);
  return elements ? element_size_ : arithmetic_.sum_size;
}

std::string StreamMachine::look_at(int rank, const StreamPlace& place, const Operand& operand, std::size_t elements,
                                   bool writes) {
  if (is_slot(place.area) || place.area == Area::scratch) return {};
  return writes ? races_.write(rank, operand.bytes, elements, operand.element_size)
                : races_.read(rank, operand.bytes, elements, operand.element_size);
}

/// What is in the stream before a call, and after it.
std::string StreamMachine::program_writes(int rank) {
  if (staging_.empty()) return {};
  races_.step(rank);
  const StreamMemory& memory = *streams_[at(rank)].segments[streams_[at(rank)].segment].memory;
  for (const StreamMemory::Part* part : {&memory.input, &memory.output})
    if (std::string race = races_.write(rank, part->data, part->elements, part->element_size); !race.empty())
      return race;
  return {};
}

std::string StreamMachine::compute(int rank, const StreamCommand& command) {
  const StreamCommands& commands = *streams_[at(rank)].segments[streams_[at(rank)].segment].commands;
  std::array<const std::byte*, most_operands> sources{};
  const std::span<const StreamPlace> from = commands.sources(command), to = commands.outputs(command);
  const std::size_t bytes_moved = command.elements * width(commands, command);
  for (std::size_t i = 0; i < from.size(); ++i) {
    Operand source;
    if (std::string trouble = find(rank, from[i], command.elements, source); !trouble.empty()) return trouble;
    if (std::string race = look_at(rank, from[i], source, command.elements, false); !race.empty()) return race;
    sources[i] = source.bytes;
  }
  std::vector<std::byte> result;  // of `whole`, which may overwrite what it reads
  for (const StreamPlace& place : to) {
    Operand output;
    if (std::string trouble = find(rank, place, command.elements, output); !trouble.empty()) return trouble;
    std::byte* const bytes = output.bytes;
    if (command.kind == Kind::copy && bytes == sources[0]) continue;  // it lies where it belongs
    if (std::string race = look_at(rank, place, output, command.elements, true); !race.empty()) return race;
    if (command.kind == Kind::whole && result.empty()) {
      result.resize(bytes_moved);
      arithmetic_.whole(result.data(), std::span{sources}.first(from.size()), command.elements);
      sources[0] = result.data();
    }
    if (command.kind == Kind::copy || command.kind == Kind::whole || &place != to.data())
      std::memmove(bytes, sources[0], bytes_moved);
    else if (command.kind == Kind::fold)
      arithmetic_.fold(bytes, std::span{sources}.first(from.size()), command.elements);
    else
      (command.kind == Kind::scale ? arithmetic_.scale : arithmetic_.divide)(bytes, sources[0], command.elements);
    if (command.kind == Kind::fold) sources[0] = bytes;  // further outputs are copies of the first
  }
  return {};
}

/// A peer's memory may be used between the wait for its arrival and the signal of its credit.
std::string StreamMachine::find_at_peer(int rank, const StreamPlace& place, const StreamMemory*& memory) {
  const Link& used = link(place.peer, rank);
  if (place.peer != rank && used.freed >= used.awaited)
    return fmt::format("it uses memory of rank {}, which has not opened it", place.peer);
  const std::vector<Segment>& segments = streams_[at(place.peer)].segments;
  const std::size_t call = streams_[at(rank)].segment;
  if (call >= segments.size()) return fmt::format("rank {} makes no such call", place.peer);
  memory = segments[call].memory;
  return {};
}

std::string StreamMachine::find(int rank, const StreamPlace& place, std::size_t elements, Operand& operand) {
  if (is_slot(place.area)) return find_in_slot(rank, place, elements, operand);
  const StreamMemory* memory = streams_[at(rank)].segments[streams_[at(rank)].segment].memory;
  if (place.peer >= 0)
    if (std::string trouble = find_at_peer(rank, place, memory); !trouble.empty()) return trouble;
  StreamMemory::Part part = memory->scratch;
  if (place.area == Area::input || place.area == Area::peer_input) part = memory->input;
  if (place.area == Area::output || place.area == Area::peer_output) part = memory->output;
  if (place.area == Area::staging) {
    std::vector<std::byte>& area = staging_[at(place.peer)];
    part = {area.data(), 0, area.size() / element_size_, element_size_};
  }
  if (place.offset < part.first || place.offset + elements > part.first + part.elements)
    return fmt::format("elements {} to {} are outside of {} to {}", place.offset, place.offset + elements, part.first,
                       part.first + part.elements);
  operand = {part.data + (place.offset - part.first) * part.element_size, part.element_size};
  return {};
}

/// A slot may be read between the wait for its message and the signal that frees it, and written between the wait for
/// its credit and the signal of its arrival.
std::string StreamMachine::find_in_slot(int rank, const StreamPlace& place, std::size_t elements, Operand& operand) {
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
  const std::size_t offset = place.slot * slot_bytes() + place.offset * arithmetic_.sum_size;
  operand = {used.slots.data() + offset, arithmetic_.sum_size};
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
