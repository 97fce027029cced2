#include "cli/run/post_mortem.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "cli/blackbox/blackbox.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using black_box::Snapshot;

/// Seconds of waiting that are worth a line if nothing has failed.
constexpr double long_wait = 1;

std::vector<Snapshot> boxes_of(const std::vector<Rank>& ranks) {
  std::vector<Snapshot> boxes;
  for (const Rank& rank : ranks) {
    if (!rank.black_box()) continue;
    try {
      Snapshot box = black_box::read(rank.black_box(), "the black box");
      if (box.used && box.rank == rank.number()) boxes.push_back(std::move(box));
    } catch (const Error&) {
      continue;  // a rank of another version
    }
  }
  return boxes;
}

const Snapshot* box_of(const Rank& rank, const std::vector<Snapshot>& boxes) {
  for (const Snapshot& box : boxes)
    if (box.rank == rank.number()) return &box;
  return nullptr;
}

std::string first_of(const std::vector<std::string>& findings) { return findings.empty() ? "" : findings.front(); }

}  // namespace

const Rank& first_to_fail(const Rank& suspect, const std::vector<Rank>& ranks) {
  const std::vector<Snapshot> boxes = boxes_of(ranks);
  const Snapshot* const box = box_of(suspect, boxes);
  const int blamed = box ? blamed_by(*box, boxes) : -1;
  for (const Rank& rank : ranks)
    if (rank.number() == blamed && !rank.running() && rank.exit_code() != 0) return rank;
  return suspect;
}

std::string last_moments(const Rank& culprit, const std::vector<Rank>& ranks) {
  const std::vector<Snapshot> boxes = boxes_of(ranks);
  if (boxes.size() < 2) return "";
  const Snapshot* const box = box_of(culprit, boxes);
  const std::string last = box ? last_call(*box, boxes) : "";
  return last.empty() ? first_of(compare(boxes, Tense::past)) : last;
}

std::string still_running(const std::vector<Rank>& ranks, bool all_well) {
  std::vector<int> late;
  for (const Rank& rank : ranks) {
    if (rank.running()) late.push_back(rank.number());
  }
  if (!late.empty()) return fmt::format("rank {}", fmt::join(late, ", "));
  return all_well ? "no rank, but their output is not read" : "ranks of other nodes";
}

std::string who_waits(const std::vector<Rank>& ranks) {
  return first_of(compare(boxes_of(ranks), Tense::past, long_wait));
}

}  // namespace tutti::cli
