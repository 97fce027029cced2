#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "cli/base/svg.h"
#include "cli/plan/replay.h"
#include "cli/plan/view.h"

namespace tutti::cli {

/// A part of the picture, from (0, 0).
struct Panel {
  double width = 0;
  double height = 0;
  Svg svg;
};

inline constexpr double picture_width = 960;

/// The ranks as the plan connects them: one or two trees, a row, or otherwise a circle. It has the messages of the
/// given step, or of as many steps as fit.
Panel draw_topology(const View& view, const Replays& replays, std::optional<std::size_t> step);
/// Ranks down, time of the model to the right, a line per message.
Panel draw_space_time(const View& view, const Replays& replays);
/// Each rank's contents of each block, a small matrix per step.
Panel draw_matrices(const View& view, const Replays& replays);

/// Why these plans cannot be drawn, or empty.
std::string too_large_to_draw(const Replays& replays);

/// All three panels as one document. Black and white; no fonts, scripts or links.
std::string to_svg(const View& view, const Replays& replays, std::optional<std::size_t> step);

}  // namespace tutti::cli
