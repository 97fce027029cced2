// Turns curves into the text of a table, and writes it atomically.

#include "cli/tune/table.h"

#include <errno.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "algorithms/select.h"
#include "cli/base/output.h"
#include "lib/base/descriptor.h"
#include "tutti/error.h"

namespace tutti::cli::tune {
namespace {

struct Counts {
  int from = 0;
  int to = 0;
};

/// The numbers of ranks for which the curve is used, among the other curves of its kind: none beyond those measured.
Counts counts_of(const Curve& curve, std::span<const Curve> all) {
  const double ranks = curve.ranks;
  Counts counts{curve.ranks, curve.ranks};
  int below = 0, above = 0;
  for (const Curve& other : all) {
    if (other.collective != curve.collective || other.transport != curve.transport ||
        other.oversubscribed != curve.oversubscribed)
      continue;
    if (other.ranks < curve.ranks) below = std::max(below, other.ranks);
    if (other.ranks > curve.ranks) above = above == 0 ? other.ranks : std::min(above, other.ranks);
  }
  if (below > 0) counts.from = static_cast<int>(std::sqrt(below * ranks)) + 1;
  if (above > 0) counts.to = static_cast<int>(std::sqrt(ranks * above));
  return counts;
}

std::string range(const Counts& counts) {
  return counts.from == counts.to ? std::to_string(counts.from) : fmt::format("{}-{}", counts.from, counts.to);
}

/// Up to the last size of the segment, from the first of all, since the first line that matches wins.
std::string range(const Segment& segment, const std::vector<Measured>& points) {
  constexpr std::size_t one_element = 4;  // what is smaller takes the same messages
  const std::size_t from = points.front().bytes <= one_element ? 0 : points.front().bytes;
  const std::size_t to = std::min(segment.to, points.back().bytes);
  return from == to ? exact_bytes(from) : fmt::format("{}-{}", exact_bytes(from), exact_bytes(to));
}

/// The algorithm and the words behind it. A line is for several numbers of ranks, so it names no domains: each job has
/// its own.
std::string choice_text(const Curve& curve, const std::string& name) {
  const std::string_view crowd = curve.transport.starts_with("cuda_") ? ""  // cores do not matter there
                                 : curve.oversubscribed               ? " oversubscribed"
                                                                      : " core-per-rank";
  algorithms::Choice choice;
  if (name != algorithms::staged_word) choice = algorithms::find(curve.collective, name);
  if (choice.domains.empty()) return fmt::format("{:<{}}{}", name, crowd.empty() ? 0 : 21, crowd);
  return fmt::format("{:<21}{} domains", choice.entry->name, crowd);
}

struct Gains {
  int points = 0;
  int changed = 0;
  double sum_of_logs = 0;
  double most = 1;
};

std::string changes_of(const Curve& curve, Gains& gains) {
  std::string text;
  const std::vector<Segment> segments = fit(curve.points);
  for (const Measured& point : curve.points) {
    ++gains.points;
    const std::string& now = segment_at(segments, point.bytes).algorithm;
    const double before = point.ratio_of(point.builtin);
    const double after = point.ratio_of(now);
    if (now == point.builtin || before <= 0 || after <= 0) continue;
    ++gains.changed;
    gains.sum_of_logs += std::log(before / after);
    gains.most = std::max(gains.most, before / after);
    text += fmt::format("# {:<14} {:<4} {:>3} ranks  {:>5}  {} -> {}: {} -> {} us, {:.2f} times as fast ({} rounds)\n",
                        name_of(curve.collective), curve.transport, curve.ranks, exact_bytes(point.bytes),
                        point.builtin, now, in_microseconds(point.microseconds * before),
                        in_microseconds(point.microseconds * after), before / after, point.rounds);
  }
  return text;
}

[[noreturn]] void failed(const std::string& path) { throw OutputError{"tune", path, errno}; }

}  // namespace

std::string exact_bytes(std::size_t bytes) {
  for (const auto& [unit, shift] : {std::pair{"G", 30}, {"M", 20}, {"K", 10}})
    if (bytes > 0 && bytes % (std::size_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, unit);
  return std::to_string(bytes);
}

std::string in_microseconds(double value) {
  return value < 10 ? fmt::format("{:.2f}", value) : fmt::format("{:.1f}", value);
}

std::string table_text(std::span<const Curve> curves, const std::vector<std::string>& comments) {
  std::string text;
  for (const std::string& comment : comments) text += "# " + comment + "\n";
  text += "# collective    transport  ranks   bytes      algorithm\n";
  const Curve* last = nullptr;
  for (const Curve& curve : curves) {
    if (last == nullptr || last->collective != curve.collective || last->transport != curve.transport) text += "\n";
    last = &curve;
    for (const Segment& segment : fit(curve.points)) {
      text += fmt::format("{:<15} {:<10} {:<7} {:<10} {}\n", name_of(curve.collective), curve.transport,
                          range(counts_of(curve, curves)), range(segment, curve.points),
                          choice_text(curve, segment.algorithm));
    }
  }
  return text;
}

std::string changes_text(std::span<const Curve> curves) {
  Gains gains;
  std::string text;
  for (const Curve& curve : curves) text += changes_of(curve, gains);
  if (gains.changed == 0)
    return fmt::format("# At all of {} points the built-in table's choice is as good as any.\n", gains.points);
  return text + fmt::format(
                    "# {} of {} points change; there a call should take 1/{:.2f} of the time (geometric mean), "
                    "1/{:.2f} at best.\n",
                    gains.changed, gains.points, std::exp(gains.sum_of_logs / gains.changed), gains.most);
}

void refuse_existing(const std::string& path, bool force) {
  if (!force && ::access(path.c_str(), F_OK) == 0)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("tune: {} exists already; --force overwrites it, -o names another file", path)};
}

void write_table(const std::string& path, const std::string& text, bool force) {
  std::string beside = path + ".XXXXXX";
  const Descriptor file{::mkstemp(beside.data())};
  if (!file) failed(path);
  bool whole = write_all(file.get(), text) && ::fchmod(file.get(), 0644) == 0 && ::fsync(file.get()) == 0;
  // link() refuses a name that was created meanwhile, rename() replaces it
  whole = whole && (force ? ::rename(beside.c_str(), path.c_str()) : ::link(beside.c_str(), path.c_str())) == 0;
  const int problem = errno;
  ::unlink(beside.c_str());
  errno = problem;
  if (!whole && problem == EEXIST) refuse_existing(path, force);
  if (!whole) failed(path);
}

}  // namespace tutti::cli::tune
