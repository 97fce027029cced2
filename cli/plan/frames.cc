// Frames as text. With few ranks a set of ranks is written by position: "0.2." is 0 and 2 of 4. With more ranks it is
// abbreviated, such as "3-7" (or "e-1" across the end), "27a", "all", or a capital letter that is explained below the
// frame.

#include "cli/plan/frames.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "cli/base/text.h"

namespace tutti::cli {
namespace {

using algorithms::Held;
using algorithms::Replay;
using algorithms::ReplayFrame;

constexpr std::size_t frame_margin = 4;  // before the first cell
constexpr std::size_t short_width = 3;

/// 0 to 9, then letters.
char digit(int rank) { return static_cast<char>(rank < 10 ? '0' + rank : 'a' + rank - 10); }

std::size_t label_width(const std::vector<Column>& columns) {
  std::size_t width = 1;
  for (const Column& column : columns) width = std::max(width, label(column).size());
  return width;
}

bool by_place(const Replays& replays) {
  const std::size_t width = std::max(label_width(replays.columns), static_cast<std::size_t>(replays.steps.ranks)) + 1;
  return replays.steps.ranks <= 10 && frame_margin + replays.columns.size() * width <= line_width;
}

std::string places_of(const std::vector<int>& set, int ranks) {
  std::string text(static_cast<std::size_t>(ranks), '.');
  for (const int rank : set) text[static_cast<std::size_t>(rank)] = digit(rank);
  return text;
}

/// "e-1" if the set is one run of ranks around a circle; else empty.
std::string run_of(const std::vector<int>& set, int ranks) {
  const std::size_t size = set.size();
  std::size_t breaks = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < size; ++i)
    if (set[i] != (set[(i + size - 1) % size] + 1) % ranks) {
      ++breaks;
      first = i;
    }
  if (breaks != 1) return {};
  return fmt::format("{}-{}", digit(set[first]), digit(set[(first + size - 1) % size]));
}

/// Short forms of sets; sets without one get letters.
class Names {
 public:
  explicit Names(const Replay& replay) : replay_(replay) {}

  std::string of(std::uint32_t number) {
    const std::vector<int>& set = replay_.sets[number];
    if (set.empty()) return ".";
    if (set.size() == 1) return {digit(set[0])};
    if (set.size() == static_cast<std::size_t>(replay_.ranks)) return "all";
    const std::string run = run_of(set, replay_.ranks);
    if (!run.empty()) return run;
    std::string text;
    if (set.size() <= short_width) {
      for (const int rank : set) text += digit(rank);
      return text;
    }
    const auto [known, is_new] = names_.emplace(number, "");
    if (is_new) {
      const std::size_t count = names_.size() - 1;
      known->second = count < 26 ? std::string(1, static_cast<char>('A' + count))
                                 : fmt::format("{}{}", static_cast<char>('A' + count / 26 - 1),
                                               static_cast<char>('A' + count % 26));
      explained_ += fmt::format("{}{} = {}", explained_.empty() ? "" : "; ", known->second, compress(set));
    }
    return known->second;
  }

  std::string explained() const { return explained_.empty() ? "" : wrapped("    " + explained_ + "\n", 4); }

 private:
  const Replay& replay_;
  std::map<std::uint32_t, std::string> names_;
  std::string explained_;
};

/// ' ', or a mark that shows a change of the cell.
char mark(const Held& held, const Held* before) {
  if (held.all != held.largest) return '+';
  return before != nullptr && held != *before ? '>' : ' ';
}

}  // namespace

std::string frames_legend(const View& view, const Replays& replays) {
  const bool barrier = view.collective == Collective::barrier;
  std::string text = barrier ? "\nA row per rank: the ranks of whose arrival it knows"
                             : "\nA row per rank, a column per block: the ranks whose contributions are there";
  text += adds_up_later(replays) ? "; \">\" is new, \"+\" still to be added up." : "; \">\" is new.";
  if (!barrier) text += " \"0>1 [3]\": rank 0 sends block 3 to rank 1.";
  if (replays.steps.ranks > 10)
    text += fmt::format(" Ranks from 10 on are written a to {}.", digit(replays.steps.ranks - 1));
  return wrapped(text + "\n", 0);
}

std::string frame(const View& view, const Replays& replays, std::size_t step) {
  const Replay& replay = replays.steps;
  const ReplayFrame& now = replays.frames[step];
  const ReplayFrame* before = step > 0 ? &replays.frames[step - 1] : nullptr;
  std::string text =
      before == nullptr
          ? std::string{"\nStart\n"}
          : wrapped(fmt::format("\nStep {} of {}: {}\n", step, replays.frames.size() - 1, arrows_text(replays, step)),
                    4);
  const bool placed = by_place(replays);
  const std::size_t width =
      std::max(label_width(replays.columns), placed ? static_cast<std::size_t>(replay.ranks) : short_width);
  const std::size_t per_band = std::max<std::size_t>((line_width - frame_margin) / (width + 1), 1);
  Names names(replay);
  for (std::size_t from = 0; from < replays.columns.size(); from += per_band) {
    const std::size_t to = std::min(from + per_band, replays.columns.size());
    std::string line(frame_margin, ' ');
    for (std::size_t i = from; i < to; ++i) line += fmt::format(" {:{}}", label(replays.columns[i]), width);
    if (view.collective != Collective::barrier) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    for (int rank = 0; rank < replay.ranks; ++rank) {
      line = fmt::format("  {:1}{:{}}", digit(rank), "", frame_margin - 3);
      for (std::size_t i = from; i < to; ++i) {
        const std::size_t cell = replay.cell(rank, replays.columns[i].first);
        const Held& held = now.held[cell];
        line += mark(held, before == nullptr ? nullptr : &before->held[cell]);
        line +=
            fmt::format("{:{}}", placed ? places_of(replay.sets[held.all], replay.ranks) : names.of(held.all), width);
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return text + names.explained();
}

std::string footer(const View& view, const Replays& replays) {
  const algorithms::Bounds bounds = algorithms::lower_bounds(view.collective, view.shape.ranks);
  const Loads loads = busiest(view);
  const double blocks = view.shape.ranks * view.shape.pipeline;
  const double bytes = static_cast<double>(replays.model.bytes);
  std::string text = fmt::format("\n  {:24}{:>22}{:>22}\n", "", "this plan", "lower bound");
  const auto row = [&](const char* what, const std::string& here, const std::string& least) {
    text += fmt::format("  {:24}{:>22}{:>22}\n", what, here, least);
  };
  const auto share = [&](double part) { return fmt::format("{:.2f} S = {:>8}", part, size_text(part * bytes)); };
  row("steps", std::to_string(replays.frames.size() - 1), std::to_string(bounds.steps));
  if (view.collective != Collective::barrier) {
    row("busiest rank sends", share(loads.sent / blocks), share(bounds.sent));
    row("busiest rank receives", share(loads.received / blocks), share(bounds.received));
    if (bounds.reduced > 0) row("busiest rank adds up", share(loads.reduced / blocks), share(bounds.reduced));
  }
  row("time", time_text(replays.time.end), time_text(least_time(bounds, replays.model)));
  text += view.collective == Collective::barrier
              ? fmt::format("A rank sends one message at a time, {:.4g} us each, and receives one.\n",
                            replays.model.latency_us)
              : fmt::format(
                    "S = {}. A rank sends one message at a time and receives one; each takes {}; adding up is "
                    "free.\n",
                    size_text(bytes), to_string(replays.model));
  return wrapped(text, 0);
}

}  // namespace tutti::cli
