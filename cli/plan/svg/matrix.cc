// Small multiples: the matrix of each frame, ranks down, blocks across. A cell has a stripe per rank, which is dark if
// that rank's contribution is there. So a cell fills up as its block is summed.

#include <fmt/core.h>

#include <algorithm>

#include "cli/plan/svg/svg.h"

namespace tutti::cli {
namespace {

using algorithms::Held;

constexpr double matrix_left = 26;   // for the numbers of ranks
constexpr double matrix_above = 32;  // for title and numbers of blocks
constexpr double matrix_gap = 22;

struct Size {
  double cell;
  double row;
  double width;  // of one matrix with its margins
  double height;
};

Size size_of(const Replays& replays) {
  const int ranks = replays.steps.ranks;
  Size size{};
  size.cell = ranks <= 8 ? 24 : std::max(17.0, 1.06 * ranks);
  size.row = ranks <= 8 ? 16 : 11;
  size.width = std::max(matrix_left + size.cell * static_cast<double>(replays.columns.size()), 70.0) + matrix_gap;
  size.height = matrix_above + size.row * ranks + matrix_gap;
  return size;
}

/// If no block ever has more than one contribution, stripes would show nothing: cells are full or empty.
bool is_moved_only(const Replays& replays) {
  const auto& sets = replays.steps.sets;
  const auto one = [&](const Held& held) { return sets[held.all].size() <= 1; };
  return replays.steps.ranks > 1 && std::all_of(replays.steps.start.begin(), replays.steps.start.end(), one) &&
         std::all_of(replays.steps.changes.begin(), replays.steps.changes.end(),
                     [&](const auto& change) { return one(change.held); });
}

/// The cells of one matrix, by kind.
struct Cells {
  Tiles has;
  Tiles apart;
  Tiles news;
  void draw(Svg& svg) const {
    has.draw("has", svg);
    apart.draw("apart", svg);
    news.draw("new", svg);
  }
};

/// Adds adjacent stripes as one shape.
void add_stripes(const std::vector<int>& set, Point corner, double stripe, double height, Tiles& tiles) {
  for (std::size_t i = 0; i < set.size();) {
    std::size_t end = i + 1;
    while (end < set.size() && set[end] == set[end - 1] + 1) ++end;
    tiles.add({corner.x + set[i] * stripe, corner.y}, static_cast<double>(end - i) * stripe, height);
    i = end;
  }
}

void fill_cell(const Replays& replays, const Held& held, Point corner, const Size& size, bool whole, Cells& cells) {
  const auto& sets = replays.steps.sets;
  corner = {corner.x + 1, corner.y + 1};
  if (whole) {
    if (held.all != 0) cells.has.add(corner, size.cell - 2, size.row - 2);
    return;
  }
  const double stripe = (size.cell - 2) / replays.steps.ranks;
  add_stripes(sets[held.largest], corner, stripe, size.row - 2, cells.has);
  std::vector<int> apart;
  std::set_difference(sets[held.all].begin(), sets[held.all].end(), sets[held.largest].begin(),
                      sets[held.largest].end(), std::back_inserter(apart));
  add_stripes(apart, corner, stripe, size.row - 2, cells.apart);
}

void draw_labels(const View& view, const Replays& replays, std::size_t step, const Size& size, Svg& svg) {
  svg.text({matrix_left, 12}, Anchor::start, step == 0 ? "Start" : fmt::format("Step {}", step));
  for (int rank = 0; rank < replays.steps.ranks; ++rank)
    svg.text({matrix_left - 5, matrix_above + (rank + 0.5) * size.row + 3.5}, Anchor::end, std::to_string(rank),
             "small");
  if (view.collective == Collective::barrier) return;
  const auto fits = [&](const Column& column) {
    return 6.0 * static_cast<double>(label(column).size()) + 4 <= size.cell;
  };
  const bool all_fit = std::all_of(replays.columns.begin(), replays.columns.end(), fits) || replays.columns.size() == 1;
  for (std::size_t i = 0; i < replays.columns.size(); ++i) {
    const Column& column = replays.columns[i];
    svg.text({matrix_left + (static_cast<double>(i) + 0.5) * size.cell, matrix_above - 4}, Anchor::middle,
             all_fit ? label(column) : std::to_string(column.first), "small");
  }
}

void draw_grid(const Replays& replays, const Size& size, Svg& svg) {
  const double width = size.cell * static_cast<double>(replays.columns.size());
  const double height = size.row * replays.steps.ranks;
  std::string path;
  for (int rank = 0; rank <= replays.steps.ranks; ++rank)
    path += fmt::format("M{} {}h{}", coordinate(matrix_left), coordinate(matrix_above + rank * size.row),
                        coordinate(width));
  for (std::size_t i = 0; i <= replays.columns.size(); ++i)
    path += fmt::format("M{} {}v{}", coordinate(matrix_left + static_cast<double>(i) * size.cell),
                        coordinate(matrix_above), coordinate(height));
  svg.path(path, "grid");
}

Svg draw_matrix(const View& view, const Replays& replays, std::size_t step, const Size& size, bool whole) {
  Svg svg;
  Cells cells;
  draw_grid(replays, size, svg);
  const algorithms::ReplayFrame& frame = replays.frames[step];
  draw_labels(view, replays, step, size, svg);
  for (int rank = 0; rank < replays.steps.ranks; ++rank)
    for (std::size_t i = 0; i < replays.columns.size(); ++i) {
      const Point corner{matrix_left + static_cast<double>(i) * size.cell, matrix_above + rank * size.row};
      const std::size_t cell = replays.steps.cell(rank, replays.columns[i].first);
      fill_cell(replays, frame.held[cell], corner, size, whole, cells);
      if (step > 0 && frame.held[cell] != replays.frames[step - 1].held[cell])
        cells.news.add(corner, size.cell, size.row);
    }
  cells.draw(svg);
  return svg;
}

}  // namespace

Panel draw_matrices(const View& view, const Replays& replays) {
  const bool whole = is_moved_only(replays);
  const Size size = size_of(replays);
  Panel panel;
  std::string legend =
      view.collective == Collective::barrier ? "A row per rank; stripe k of a cell: it knows that rank k has come."
      : whole                                ? "A row per rank, a column per block; dark: it is there."
              : "A row per rank, a column per block; stripe k of a cell: rank k's contribution is in it.";
  if (adds_up_later(replays)) legend += " Light: not yet added up.";
  legend += " Thick frame: new.";
  panel.svg.text({0, 0}, Anchor::start, legend, "small");
  const int across = std::max(1, static_cast<int>((picture_width + matrix_gap) / size.width));
  for (std::size_t step = 0; step < replays.frames.size(); ++step) {
    const int number = static_cast<int>(step);
    const int row = number / across;
    panel.svg.add(draw_matrix(view, replays, step, size, whole), {number % across * size.width, 8 + row * size.height});
  }
  const int frames = static_cast<int>(replays.frames.size());
  panel.width = std::min(frames, across) * size.width - matrix_gap;
  const int rows = (frames + across - 1) / across;
  panel.height = 8 + rows * size.height;
  return panel;
}

}  // namespace tutti::cli
