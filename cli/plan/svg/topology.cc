// Places the ranks according to their messages: as the tree that these form, or else on a circle.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include "cli/base/text.h"
#include "cli/plan/svg/svg.h"
#include "cli/plan/trees.h"
#include "lib/base/index.h"

namespace tutti::cli {
namespace {

using algorithms::ReplayMessage;

constexpr double radius = 13;  // of a rank
constexpr double leaf_width = 46;
constexpr double level_height = 62;   // minimum
constexpr double level_slope = 0.32;  // so that a long edge passes above its neighbours
constexpr double tree_gap = 50;       // between two trees
constexpr double title_height = 16;
constexpr std::size_t longest_label = 7;

/// One drawing of all ranks, and the blocks whose messages it shows; empty: all.
struct Layout {
  std::vector<Point> at;
  double width = 0;
  double height = 0;
  std::vector<int> blocks;
  double bend = 0.12;
};

/// Across: in units of x. Down: levels, whose heights are computed later.
double place_subtree(const Tree& tree, int rank, double left, int level, Layout& layout) {
  double right = left;
  for (const int child : tree.children[at(rank)]) right = place_subtree(tree, child, right, level + 1, layout);
  if (right == left) right = left + leaf_width;
  layout.at[at(rank)] = {(left + right) / 2, static_cast<double>(level)};
  return right;
}

void place_levels(const Tree& tree, Layout& layout) {
  std::vector<double> height(tree.children.size() + 1, 0);  // per level: of the edges above it
  for (std::size_t rank = 0; rank < tree.children.size(); ++rank)
    for (const int child : tree.children[rank]) {
      double& here = height[static_cast<std::size_t>(layout.at[at(child)].y)];
      here = std::max({here, level_height, level_slope * std::abs(layout.at[rank].x - layout.at[at(child)].x)});
    }
  for (std::size_t level = 1; level < height.size(); ++level) height[level] += height[level - 1];
  for (Point& at : layout.at) {
    at.y = radius + 6 + height[static_cast<std::size_t>(at.y)];
    layout.height = std::max(layout.height, at.y + radius + 6);
  }
}

Layout on_tree(const Tree& tree) {
  Layout layout;
  layout.at.resize(tree.children.size());
  layout.blocks = tree.blocks;
  const bool is_row = std::all_of(tree.children.begin(), tree.children.end(),
                                  [](const std::vector<int>& children) { return children.size() < 2; });
  if (!is_row) {
    layout.width = place_subtree(tree, tree.root, 0, 0, layout);
    layout.bend = 0;
    place_levels(tree, layout);
    return layout;
  }
  const double apart = std::clamp(picture_width / static_cast<double>(layout.at.size()), leaf_width, 2 * leaf_width);
  double x = leaf_width / 2;
  for (int rank = tree.root;; rank = tree.children[at(rank)][0]) {
    layout.at[at(rank)] = {x, 40};
    if (tree.children[at(rank)].empty()) break;
    x += apart;
  }
  layout.width = x + leaf_width / 2;
  layout.height = 80;
  layout.bend = 0.3;
  return layout;
}

Layout on_circle(int ranks) {
  Layout layout;
  const double size = std::max(84.0, 64 * ranks / (2 * std::numbers::pi));
  for (int rank = 0; rank < ranks; ++rank) {
    const double angle = 2 * std::numbers::pi * rank / ranks - std::numbers::pi / 2;
    layout.at.push_back({size + 30 + size * std::cos(angle), size + 30 + size * std::sin(angle)});
  }
  layout.width = layout.height = 2 * size + 60;
  return layout;
}

std::vector<Layout> layouts_of(const View& view) {
  std::vector<Layout> layouts;
  double width = 0;
  for (const Tree& tree : find_trees(view.collective, view.plans, 2)) {
    layouts.push_back(on_tree(tree));
    width += layouts.back().width + tree_gap;
  }
  if (layouts.empty() || width > picture_width + tree_gap) return {on_circle(view.shape.ranks)};
  return layouts;
}

bool belongs(const ReplayMessage& message, const Layout& layout) {
  return layout.blocks.empty() || message.blocks.empty() ||
         std::find(layout.blocks.begin(), layout.blocks.end(), message.blocks[0]) != layout.blocks.end();
}

/// From rim to rim.
std::pair<Point, Point> ends_of(const Layout& layout, const ReplayMessage& message) {
  const Point from = layout.at[at(message.from)];
  const Point to = layout.at[at(message.to)];
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  const double dx = (to.x - from.x) / length;
  const double dy = (to.y - from.y) / length;
  return {{from.x + dx * radius, from.y + dy * radius}, {to.x - dx * (radius + 2), to.y - dy * (radius + 2)}};
}

/// Along the bent arrow, 0 to 1.
Point along(Point from, Point to, double bend, double part) {
  const double aside = 2 * bend * part * (1 - part);
  return {from.x + (to.x - from.x) * part - (to.y - from.y) * aside,
          from.y + (to.y - from.y) * part + (to.x - from.x) * aside};
}

/// Near the sender, where arrows are still apart, if enough of the arrow remains visible.
void write_label(const std::string& words, Point from, Point to, double bend, Boxes& boxes, Svg& svg) {
  if (words.empty() || words.size() > longest_label) return;
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  if (length < 6.0 * static_cast<double>(words.size()) + 20) return;
  const double near = std::min(0.4, 26 / length);
  for (const double part : {near, near * 0.7, near * 1.3}) {
    const Point at = along(from, to, bend, part);
    if (boxes.take_label(at, words)) return svg.label(at, words);
  }
}

void draw_layout(const Replays& replays, std::size_t step, const Layout& layout, Svg& svg) {
  std::set<std::pair<int, int>> links;
  for (const ReplayMessage& message : replays.steps.messages)
    if (belongs(message, layout)) links.insert(std::minmax(message.from, message.to));
  for (const auto& [a, b] : links) svg.line(layout.at[at(a)], layout.at[at(b)], "link");
  Boxes boxes;
  for (const Point& at : layout.at) boxes.take(at, 2 * radius, 2 * radius);
  std::set<std::pair<int, int>> arrows;
  for (const std::size_t i : replays.frames[step].messages)
    arrows.emplace(replays.steps.messages[i].from, replays.steps.messages[i].to);
  Svg labels;
  for (const std::size_t i : replays.frames[step].messages) {
    const ReplayMessage& message = replays.steps.messages[i];
    if (!belongs(message, layout)) continue;
    const auto [from, to] = ends_of(layout, message);
    const double bend = arrows.count({message.to, message.from}) > 0 ? std::max(layout.bend, 0.1) : layout.bend;
    svg.arc(from, to, bend, "message");
    write_label(compress(message.blocks), from, to, bend, boxes, labels);
  }
  for (std::size_t rank = 0; rank < layout.at.size(); ++rank) {
    svg.circle(layout.at[rank], radius, "node");
    svg.text({layout.at[rank].x, layout.at[rank].y + 4}, Anchor::middle, std::to_string(rank));
  }
  svg.add(labels, {});
}

/// Draws one step: its layouts beside each other.
Panel draw_step(const Replays& replays, std::size_t step, const std::vector<Layout>& layouts) {
  Panel panel;
  panel.svg.text({0, 12}, Anchor::start, fmt::format("Step {} of {}", step, replays.frames.size() - 1));
  for (const Layout& layout : layouts) {
    Svg drawn;
    draw_layout(replays, step, layout, drawn);
    panel.svg.add(drawn, {panel.width, title_height});
    panel.width += layout.width + tree_gap;
    panel.height = std::max(panel.height, layout.height + title_height);
  }
  return panel;
}

}  // namespace

Panel draw_topology(const View& view, const Replays& replays, std::optional<std::size_t> step) {
  const std::vector<Layout> layouts = layouts_of(view);
  Panel panel;
  const std::size_t last = replays.frames.size() - 1;
  for (std::size_t shown = step.value_or(std::min<std::size_t>(1, last)); shown <= last; ++shown) {
    const Panel one = draw_step(replays, shown, layouts);
    if (panel.width > 0 && panel.width + one.width > picture_width + tree_gap) break;
    panel.svg.add(one.svg, {panel.width, 0});
    panel.width += one.width;
    panel.height = one.height;
    if (step) break;
  }
  return panel;
}

}  // namespace tutti::cli
