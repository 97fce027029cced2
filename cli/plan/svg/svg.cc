// The picture of a plan: one document with three panels, one above the other.

#include "cli/plan/svg/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "cli/base/text.h"

namespace tutti::cli {
namespace {

constexpr double picture_margin = 20;
constexpr std::size_t most_cells_in_picture = 60'000;
constexpr std::size_t most_messages_in_picture = 20'000;
constexpr int most_ranks_in_picture = 64;

// Text is 12 px high. Its width is estimated as 0.6 of that, which is more than common fonts need.
constexpr const char* style =
    "text{font:12px sans-serif;fill:#000}"
    ".title{font-size:16px;font-weight:bold}.head{font-size:14px;font-weight:bold}.small{font-size:10px}"
    ".paper{fill:#fff}"
    ".link{stroke:#bbb;stroke-width:1;fill:none}.row{stroke:#bbb;stroke-width:1}"
    ".message{stroke:#000;stroke-width:1.5;fill:none;marker-end:url(#arrow)}"
    ".thin{stroke:#000;stroke-width:.8;fill:none;marker-end:url(#tip)}"
    ".tick{stroke:#000;stroke-width:1}.bound{stroke:#000;stroke-width:1;stroke-dasharray:4 3}"
    ".node{fill:#fff;stroke:#000;stroke-width:1.5}"
    ".grid{fill:none;stroke:#bbb;stroke-width:.5}.has{fill:#777}.apart{fill:#ccc}"
    ".new{fill:none;stroke:#000;stroke-width:2}";

/// Splits text into lines of at most `columns` characters.
std::vector<std::string> lines_of(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (rest.size() > width) {
    std::size_t space = rest.rfind(' ', width);
    if (space == std::string::npos || space == 0) space = width;
    lines.push_back(rest.substr(0, space));
    rest = rest.substr(std::min(space + 1, rest.size()));
  }
  lines.push_back(rest);
  return lines;
}

std::string heading_of(const View& view) {
  return fmt::format("{} by {} over {}", name_of(view.collective), to_string(view.choice),
                     plural(static_cast<std::size_t>(view.shape.ranks), "rank"));
}

std::string arrow_head(const char* id, int size) {
  return fmt::format(
      "<marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"{}\" markerHeight=\"{}\" "
      "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0.5L8 4L0 7.5z\"/></marker>",
      id, size, size);
}

}  // namespace

std::string too_large_to_draw(const Replays& replays) {
  if (replays.empty()) return "these plans are too large to be run for a picture";
  const std::size_t cells =
      replays.frames.size() * replays.columns.size() * static_cast<std::size_t>(replays.steps.ranks);
  if (replays.steps.ranks > most_ranks_in_picture)
    return fmt::format("a picture has room for {} ranks", most_ranks_in_picture);
  if (cells > most_cells_in_picture || replays.steps.messages.size() > most_messages_in_picture)
    return fmt::format("{} steps with {} messages are too many for a picture", replays.frames.size() - 1,
                       replays.steps.messages.size());
  return {};
}

std::string to_svg(const View& view, const Replays& replays, std::optional<std::size_t> step) {
  Svg svg;
  double y = picture_margin + 16;
  double width = picture_width;
  const auto line = [&](const std::string& words, const char* css_class, double advance) {
    for (const std::string& part : lines_of(words, 128)) {
      svg.text({picture_margin, y}, Anchor::start, part, css_class);
      y += advance;
    }
  };
  const auto panel = [&](const Panel& drawn) {
    svg.add(drawn.svg, {picture_margin, y});
    y += drawn.height + 30;
    width = std::max(width, drawn.width);
  };
  const std::string title = heading_of(view);
  line(title, "title", 20);
  line(std::string{view.choice.entry->idea} + ".", "", 30);
  line("Who sends to whom", "head", 18);
  panel(draw_topology(view, replays, step));
  line(view.collective == Collective::barrier
           ? fmt::format("When, if a message takes {:.4g} us", replays.model.latency_us)
           : fmt::format("When, if a message takes {} and S is {}", to_string(replays.model),
                         size_text(static_cast<double>(replays.model.bytes))),
       "head", 8);
  panel(draw_space_time(view, replays));
  line("Who has what after each step", "head", 18);
  panel(draw_matrices(view, replays));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
      "<title>{2}</title>\n<desc>{3} steps, {4} messages; tutti plan prints the same as text.</desc>\n"
      "<style>{5}</style>\n<defs>{7}{8}</defs>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{6}</svg>\n",
      coordinate(width + 2 * picture_margin), coordinate(y), title, replays.frames.size() - 1,
      replays.steps.messages.size(), style, svg.body(), arrow_head("arrow", 8), arrow_head("tip", 5));
}

}  // namespace tutti::cli
