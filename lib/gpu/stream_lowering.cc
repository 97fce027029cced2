#include "lib/gpu/stream_lowering.h"

#include <algorithm>

#include "lib/gpu/device_kernels.h"
#include "transport/cuda_ipc/stream_links.h"

namespace tutti::detail {

using algorithms::StreamCommand;
using algorithms::StreamCommands;
using algorithms::StreamPlace;

namespace {

using Area = StreamPlace::Area;
using Kind = StreamCommand::Kind;
using Word = transport::StreamLinks::Word;

/// While they wait, the program's kernels have the rest of the GPU. Enough for 256 KiB at once.
constexpr unsigned most_blocks_that_wait = 32;

}  // namespace

bool DeviceArithmetic::serves(DataType type, OpKind op) {
  using compute::gpu::Step;
  return compute::gpu::choose(type, op, Step::whole).kernel != nullptr;
}

/// A kernel has no place for marks between its commands, and counts in the words of calls that are not captured. So
/// where there are marks, and in graphs, the stream itself signals and waits.
void StreamLowering::add(const StreamCommands& commands, std::span<const StreamMark> marks) const {
  if (marks.empty() && !is_captured_ && !commands.in_kernels.empty()) {
    std::size_t next = 0;
    for (const StreamCommands::Part part : commands.in_kernels) {
      for (; next < part.begin; ++next) add(commands, commands.all[next]);
      add_kernel(commands, part);
      next = part.end;
    }
    for (; next < commands.all.size(); ++next) add(commands, commands.all[next]);
    return;
  }
  auto mark = marks.begin();
  for (std::size_t i = 0; i <= commands.all.size(); ++i) {
    for (; mark != marks.end() && mark->before == i; ++mark) stream_.record(mark->event);
    if (i < commands.all.size()) add(commands, commands.all[i]);
  }
}

void StreamLowering::add(const StreamCommands& commands, const StreamCommand& command) const {
  const auto word = [&](Word plain) { return transport::StreamLinks::counting(plain, is_captured_); };
  switch (command.kind) {
    case Kind::wait_arrival:
      return links_.wait(stream_, word(Word::arrived), command.peer, command.value);
    case Kind::wait_credit:
      return links_.wait(stream_, word(Word::freed), command.peer, command.value);
    case Kind::signal_arrival:
      return links_.signal(stream_, word(Word::arrived), command.peer, command.value);
    case Kind::signal_credit:
      return links_.signal(stream_, word(Word::freed), command.peer, command.value);
    case Kind::copy: {
      const StreamPlace& from = commands.sources(command).front();
      for (const StreamPlace& to : commands.outputs(command)) copy(to, from, command.elements);
      return;
    }
    case Kind::fold:
      return compute(compute::gpu::Step::combine, commands, command);
    case Kind::scale:
      return compute(compute::gpu::Step::begin, commands, command);
    case Kind::divide:
      return compute(compute::gpu::Step::finish, commands, command);
    case Kind::whole:
      return compute(compute::gpu::Step::whole, commands, command);
  }
}

void StreamLowering::add_kernel(const StreamCommands& commands, StreamCommands::Part part) const {
  using compute::gpu::Meeting;
  static_assert(Meeting::to_credit == transport::StreamLinks::to_freed);
  Meeting meeting{.peers = {}, .tickets = links_.tickets(), .slots = links_.form().slots, .count = 0};
  const auto with = [&](int peer) -> Meeting::Peer& {
    const cuda::Address own = links_.own_word(peer);
    const auto known = std::span{meeting.peers, static_cast<std::size_t>(meeting.count)};
    const auto found = std::ranges::find(known, own, &Meeting::Peer::own);
    if (found != known.end()) return *found;
    Meeting::Peer& made = meeting.peers[meeting.count++];
    made = {.own = own, .at_peer = links_.word_at_peer(peer), .sent = 0, .received = 0};
    return made;
  };
  const StreamCommand* data = nullptr;
  for (const StreamCommand& command : std::span{commands.all}.subspan(part.begin, part.end - part.begin)) {
    if (command.kind == Kind::signal_arrival) with(command.peer).sent = command.value;
    if (command.kind == Kind::wait_arrival) with(command.peer).received = command.value;
    if (command.kind == Kind::whole) data = &command;
  }
  compute(compute::gpu::Step::whole, commands, *data, meeting);
}

std::size_t DeviceArithmetic::size_of_element_in(Area area) const {
  return area == Area::scratch || area == Area::incoming || area == Area::outgoing ? sum_size : element_size;
}

cuda::Address StreamLowering::address_of(const StreamPlace& place) const {
  const std::size_t offset = place.offset * arithmetic_.size_of_element_in(place.area);
  switch (place.area) {
    case Area::input:
      return areas_.input + offset;
    case Area::output:
      return areas_.output + offset;
    case Area::scratch:
      return areas_.scratch + offset;
    case Area::incoming:
      return links_.incoming(place.peer, place.slot) + offset;
    case Area::outgoing:
      return links_.outgoing(place.peer, place.slot) + offset;
    case Area::peer_input:
      return areas_.peer_input[static_cast<std::size_t>(place.peer)] + offset;
    case Area::peer_output:
      return areas_.peer_output[static_cast<std::size_t>(place.peer)] + offset;
    case Area::staging:
      return links_.staging(place.peer) + offset;
  }
  return 0;
}

/// In place a block may lie where it belongs.
void StreamLowering::copy(const StreamPlace& to, const StreamPlace& from, std::size_t elements) const {
  if (address_of(to) != address_of(from))
    stream_.copy(address_of(to), address_of(from), elements * arithmetic_.size_of_element_in(from.area));
}

/// Where a step has no kernel, contributions are elements, or sums the result.
void StreamLowering::compute(compute::gpu::Step step, const StreamCommands& commands, const StreamCommand& command,
                             const compute::gpu::Meeting& meeting) const {
  const auto [kernel, parts] = compute::gpu::choose(arithmetic_.type, arithmetic_.op, step);
  const bool is_done = step == compute::gpu::Step::finish && arithmetic_.divisor == 1 &&
                       arithmetic_.sum_size == arithmetic_.element_size;
  const std::span<const StreamPlace> sources = commands.sources(command);
  const std::span<const StreamPlace> outputs = commands.outputs(command);
  if (!kernel || is_done) {
    for (const StreamPlace& to : outputs) copy(to, sources.front(), command.elements);
    return;
  }
  compute::gpu::FoldArguments arguments{};
  std::ranges::transform(sources, arguments.inputs, [&](const StreamPlace& place) { return address_of(place); });
  std::ranges::transform(outputs, arguments.outputs, [&](const StreamPlace& place) { return address_of(place); });
  arguments.input_count = static_cast<std::int32_t>(sources.size());
  arguments.output_count = static_cast<std::int32_t>(outputs.size());
  arguments.count = command.elements * parts;
  arguments.factor = arithmetic_.factor;
  arguments.divisor = arithmetic_.divisor;
  arguments.meeting = meeting;
  compute::gpu::Blocks blocks = compute::gpu::blocks_for(*kernel, arguments.count, arithmetic_.multiprocessors);
  if (meeting.count > 0) blocks.blocks = std::min(blocks.blocks, most_blocks_that_wait);
  stream_.launch((*arithmetic_.kernels)[*kernel], {blocks.blocks, blocks.threads}, arguments);
}

}  // namespace tutti::detail
