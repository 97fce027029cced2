#include "cli/plan/streams.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithms/stream_tasks.h"
#include "cli/base/text.h"
#include "lib/api/gpu_facts.h"
#include "lib/api/runners.h"
#include "lib/base/collective_traits.h"
#include "lib/base/index.h"
#include "lib/collective/binding.h"
#include "lib/collective/stream_binding.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using Json = nlohmann::ordered_json;
using algorithms::StreamCommand;
using algorithms::StreamCommands;
using algorithms::StreamPlace;

constexpr std::size_t element_size = 4;

/// Equal parts, as the library cuts them.
algorithms::StreamSizes sizes_of(const View& view, std::size_t bytes) {
  const std::size_t elements = bytes / element_size;
  const bool parts = detail::traits_of(view.collective).has_parts();
  const auto partition = detail::Partition::of(view.collective, parts ? elements / at(view.shape.ranks) : elements,
                                               view.shape.ranks, view.shape.pipeline, element_size);
  return detail::stream_sizes(partition, partition, view.shape, element_size);
}

void require_no_deadlock(const View& view, int slots) {
  const auto refuse = [&](const std::string& why) {
    throw Error{ErrorCode::unsupported,
                fmt::format("plan: {} by {} cannot run on streams with {} per link: {}", name_of(view.collective),
                            to_string(view.choice), plural(at(slots), "slot"), why)};
  };
  if (!view.verdict.ok()) refuse("the plan is wrong (--check)");
  if (!view.verdict.in_order) refuse("if each rank runs its steps one after the other, they deadlock");
  if (*view.verdict.in_order > slots) refuse(fmt::format("it takes {} (--slots)", *view.verdict.in_order));
}

const char* name_of_area(StreamPlace::Area area) {
  constexpr const char* names[] = {"input",    "output",     "scratch",     "incoming",
                                   "outgoing", "peer_input", "peer_output", "staging"};
  return names[static_cast<std::size_t>(area)];
}

Json json_of(std::span<const StreamPlace> places) {
  Json json = Json::array();
  for (const StreamPlace& place : places) {
    Json one{{"area", name_of_area(place.area)}};
    if (place.peer >= 0) one["peer"] = place.peer;
    if (place.area == StreamPlace::Area::incoming || place.area == StreamPlace::Area::outgoing)
      one["slot"] = place.slot;
    one["offset"] = place.offset;
    json.push_back(one);
  }
  return json;
}

/// Whether a kernel does it, which signals and waits itself.
bool is_in_kernel(const StreamCommands& commands, const StreamCommand& command) {
  const auto at = static_cast<std::size_t>(&command - commands.all.data());
  return std::ranges::any_of(commands.in_kernels, [at](const auto& part) { return part.begin <= at && at < part.end; });
}

Json json_of(const StreamCommands& commands, const StreamCommand& command, std::size_t round) {
  Json json{{"kind", name_of(command.kind)}, {"round", round}};
  if (is_in_kernel(commands, command)) json["in_kernel"] = true;
  if (command.step != algorithms::no_step) json["step"] = command.step;
  if (command.peer >= 0) {
    json["peer"] = command.peer;
    json["value"] = command.value;
    return json;
  }
  json["elements"] = command.elements;
  json["sources"] = json_of(commands.sources(command));
  json["outputs"] = json_of(commands.outputs(command));
  return json;
}

std::string bytes_text(std::size_t elements) { return size_text(static_cast<double>(elements * element_size)); }

/// A line for each command.
std::string lines(const GpuStreams::Rank& stream, std::size_t at_most) {
  std::string text = fmt::format("{:>6} {:>6} {:>6}  command\n", "round", "#", "step");
  std::size_t number = 0;
  for (std::size_t round = 0; round < stream.rounds.size(); ++round)
    for (const StreamCommand& command : stream.rounds[round].all) {
      if (number == at_most)
        return text + fmt::format("  ... {} more (all of them with --rank {})\n", stream.counts.commands - number,
                                  stream.rank);
      text += fmt::format("{:>6} {:>6} {:>6}  {}{}\n", round, number++,
                          command.step == algorithms::no_step ? "" : std::to_string(command.step),
                          is_in_kernel(stream.rounds[round], command) ? "| " : "",
                          to_string(stream.rounds[round], command));
    }
  return text;
}

}  // namespace

/// The streams of ranks that use each other's memory.
GpuStreams make_task_streams(const View& view, const StreamWish& wish) {
  const auto refuse = [&](const std::string& why) {
    throw Error{ErrorCode::unsupported,
                fmt::format("plan: {} by {} cannot run on {} whose ranks use each other's memory: "
                            "{}",
                            name_of(view.collective), to_string(view.choice), plural(at(wish.gpus), "GPU"), why)};
  };
  const int ranks = view.shape.ranks;
  if (ranks > detail::most_sharing)
    refuse(fmt::format("{} ranks are more than a kernel has inputs ({}); take fewer ranks, or leave out --gpus", ranks,
                       detail::most_sharing));
  if (wish.gpus > ranks) refuse(fmt::format("there are {}", plural(at(ranks), "rank")));
  const algorithms::Lowering on_board = algorithms::lower_to_board(view.plans);
  if (on_board.programs.empty()) refuse("it " + on_board.why_not);
  const auto windows = algorithms::lower_to_windows(on_board.programs, view.shape.root);
  if (windows.empty()) refuse("its results pass through more than one rank");
  const auto programs = algorithms::run_by(windows, algorithms::first_on_gpus(ranks, wish.gpus));
  GpuStreams streams{
      {wish.slot_bytes / element_size, static_cast<std::uint32_t>(wish.slots)}, wish.bytes, 0, wish.gpus, {}};
  const algorithms::StreamSizes sizes = sizes_of(view, wish.bytes);
  const detail::Runners runners{.mode = detail::wanted_mode()};
  const algorithms::TaskStages stages{.reduces = detail::traits_of(view.collective).reduces(),
                                      .in_kernels = wish.gpus == ranks && runners.meet_in_kernels()};
  for (const int rank : wish.ranks) {
    const algorithms::StreamTasks program{rank, programs, sizes, stages, 0, streams.slots.count};
    algorithms::StreamCounters counters{ranks};
    GpuStreams::Rank& made = streams.ranks.emplace_back();
    made.rank = rank;
    made.rounds.resize(program.rounds());
    for (std::size_t round = 0; round < program.rounds(); ++round) {
      program.add_round(round, counters, made.rounds[round]);
      for (const StreamCommand& command : made.rounds[round].all) made.counts.add(made.rounds[round], command);
    }
  }
  return streams;
}

GpuStreams make_streams(const View& view, const StreamWish& wish) {
  if (wish.gpus > 0) return make_task_streams(view, wish);
  require_no_deadlock(view, wish.slots);
  GpuStreams streams{{wish.slot_bytes / element_size, static_cast<std::uint32_t>(wish.slots)}, wish.bytes, 0, 0, {}};
  const algorithms::StreamSizes sizes = sizes_of(view, wish.bytes);
  const auto units = algorithms::StreamUnits::of(view.collective, view.plans);
  for (const int rank : wish.ranks) {
    const algorithms::StreamProgram program{view.collective, view.plans[at(rank)], units, sizes, {}, streams.slots};
    algorithms::StreamCounters counters{view.shape.ranks};
    GpuStreams::Rank& made = streams.ranks.emplace_back();
    made.rank = rank;
    made.scratch = program.scratch();
    made.rounds.resize(program.rounds());
    streams.piece = program.piece();
    for (std::size_t round = 0; round < program.rounds(); ++round) {
      program.add_round(round, counters, made.rounds[round]);
      for (const StreamCommand& command : made.rounds[round].all) made.counts.add(made.rounds[round], command);
    }
  }
  return streams;
}

std::string streams_as_text(const View& view, const GpuStreams& streams, std::size_t at_most) {
  std::string text = wrapped(
      fmt::format("S has {}, and each link {} of {}. The streams of all ranks come to their ends with {} or more.\n",
                  size_text(static_cast<double>(streams.bytes)), plural(streams.slots.count, "slot"),
                  bytes_text(streams.slots.elements), plural(at(view.verdict.in_order.value_or(0)), "slot")),
      0);
  if (streams.gpus > 0)
    text = wrapped(
        fmt::format("S has {}. The ranks share {}, and use each other's memory; the first rank of each runs the "
                    "kernels of all.\n",
                    size_text(static_cast<double>(streams.bytes)), plural(at(streams.gpus), "GPU")),
        0);
  for (const GpuStreams::Rank& stream : streams.ranks) {
    const algorithms::StreamCounts& counts = stream.counts;
    text += wrapped(
        fmt::format("\nRank {} of {}: {} in {}, of which {} and {}; reads {}, writes {}, {} of it into "
                    "memory of other ranks; {} of scratch\n",
                    stream.rank, view.shape.ranks, plural(counts.commands, "command"),
                    plural(stream.rounds.size(), "round"), plural(counts.waits, "wait"),
                    plural(counts.signals, "signal"), bytes_text(counts.elements_read),
                    bytes_text(counts.elements_written), bytes_text(counts.elements_sent), bytes_text(stream.scratch)),
        2);
    text += lines(stream, at_most);
  }
  const bool has_kernels = std::ranges::any_of(streams.ranks, [](const GpuStreams::Rank& rank) {
    return std::ranges::any_of(rank.rounds, [](const auto& round) { return !round.in_kernels.empty(); });
  });
  if (has_kernels) text += "\nCommands with a | are one kernel, which signals and waits itself.\n";
  return text +
         "\n\"step\" is that of the rank's plan. Ranges count elements of 4 bytes. Waits look at the\n"
         "rank's own memory, and signals write the number of a message to the peer's.\n";
}

std::string streams_as_json(const View& view, const GpuStreams& streams) {
  Json json{{"collective", name_of(view.collective)},
            {"algorithm", to_string(view.choice)},
            {"ranks", view.shape.ranks},
            {"root", view.shape.root},
            {"bytes", streams.bytes},
            {"element_size", element_size},
            {"slots", streams.slots.count},
            {"slot_elements", streams.slots.elements},
            {"piece_elements", streams.piece},
            {"in_order", view.verdict.in_order.value_or(0)},
            {"gpus", streams.gpus},
            {"streams", Json::array()}};
  for (const GpuStreams::Rank& stream : streams.ranks) {
    Json commands = Json::array();
    for (std::size_t round = 0; round < stream.rounds.size(); ++round)
      for (const StreamCommand& command : stream.rounds[round].all)
        commands.push_back(json_of(stream.rounds[round], command, round));
    const algorithms::StreamCounts& counts = stream.counts;
    json["streams"].push_back({{"rank", stream.rank},
                               {"rounds", stream.rounds.size()},
                               {"scratch_elements", stream.scratch},
                               {"waits", counts.waits},
                               {"signals", counts.signals},
                               {"elements_read", counts.elements_read},
                               {"elements_written", counts.elements_written},
                               {"elements_sent", counts.elements_sent},
                               {"commands", commands}});
  }
  return json.dump(1) + "\n";
}

}  // namespace tutti::cli
