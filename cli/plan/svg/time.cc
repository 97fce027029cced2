// The space-time diagram: a message leaves its sender's line and arrives at its receiver's. Latency shows as lines one
// after the other, bandwidth as long lines.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/base/text.h"
#include "cli/plan/svg/svg.h"

namespace tutti::cli {
namespace {

using algorithms::ReplayMessage;
using algorithms::Ticks;

constexpr double axis_left = 54;   // of time 0
constexpr double axis_top = 30;    // of the first rank's line
constexpr double axis_right = 50;  // beyond the end
constexpr std::size_t most_labels = 150;

struct Scale {
  double row;
  double per_tick;
  Point at(int rank, Ticks time) const {
    return {axis_left + static_cast<double>(time) * per_tick, axis_top + rank * row};
  }
};

/// 1, 2 or 5 times a power of ten, for about eight ticks.
Ticks tick_distance(Ticks end) {
  const double rough = std::max(static_cast<double>(end) / 8, 1.0);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return std::llround(factor * power);
  return std::llround(10 * power);
}

void draw_axis(const Replays& replays, const Scale& scale, double bottom, Ticks least, Svg& svg) {
  const Ticks end = replays.time.end;
  const Ticks distance = tick_distance(end);
  Boxes boxes;
  const auto mark = [&](Ticks time) {
    const Point at{scale.at(0, time).x, bottom};
    const std::string words = time_text(time);
    if (!boxes.take(at, 6.6 * static_cast<double>(words.size()) + 6, 12)) return;
    svg.line(at, {at.x, at.y + 5}, "tick");
    svg.text({at.x, at.y + 17}, Anchor::middle, words, "small");
  };
  svg.line({axis_left, bottom}, {scale.at(0, end).x, bottom}, "tick");
  mark(end);
  for (Ticks time = 0; time < end; time += distance) mark(time);
  if (least <= 0 || least > end) return;
  const double x = scale.at(0, least).x;
  svg.line({x, axis_top - 12}, {x, bottom}, "bound");
  const bool at_left = x < axis_left + 200;
  svg.text({at_left ? x + 4 : x - 4, axis_top - 14}, at_left ? Anchor::start : Anchor::end,
           "lower bound " + time_text(least), "small");
}

/// At least half of every line must stay visible.
bool has_room_for_labels(const Replays& replays, const Scale& scale) {
  if (replays.time.messages.size() > most_labels) return false;
  return std::all_of(replays.time.messages.begin(), replays.time.messages.end(), [&](const ReplayMessage& message) {
    const double width = static_cast<double>(message.end - message.begin) * scale.per_tick;
    return 12 * static_cast<double>(compress(message.blocks).size()) < width;
  });
}

}  // namespace

Panel draw_space_time(const View& view, const Replays& replays) {
  const int ranks = view.shape.ranks;
  const Ticks end = replays.time.end;
  Panel panel;
  panel.width = picture_width;
  const Scale scale{ranks <= 8    ? 36.0
                    : ranks <= 16 ? 26.0
                                  : 16.0,
                    (picture_width - axis_left - axis_right) / static_cast<double>(std::max<Ticks>(end, 1))};
  const double bottom = axis_top + (ranks - 1) * scale.row + 16;
  panel.height = bottom + 22;
  for (int rank = 0; rank < ranks; ++rank) {
    const Point at = scale.at(rank, 0);
    panel.svg.line(at, scale.at(rank, end), "row");
    panel.svg.text({at.x - 8, at.y + 4}, Anchor::end, fmt::format("rank {}", rank), ranks <= 16 ? "" : "small");
  }
  const Ticks least = end == 0 ? 0 : least_time(algorithms::lower_bounds(view.collective, ranks), replays.model);
  draw_axis(replays, scale, bottom, least, panel.svg);
  const bool labelled = has_room_for_labels(replays, scale);
  Boxes boxes;
  Svg labels;
  for (const ReplayMessage& message : replays.time.messages) {
    const Point from = scale.at(message.from, message.begin);
    const Point to = scale.at(message.to, message.end);
    panel.svg.line(from, to, labelled ? "message" : "thin");
    const std::string words = compress(message.blocks);
    if (!labelled || words.empty()) continue;
    for (const double part : {0.3, 0.2, 0.4, 0.5, 0.15, 0.6}) {
      const Point at{from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part};
      if (!boxes.take_label(at, words)) continue;
      labels.label(at, words);
      break;
    }
  }
  panel.svg.add(labels, {});
  return panel;
}

}  // namespace tutti::cli
