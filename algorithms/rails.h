#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "algorithms/partition.h"
#include "algorithms/plan.h"

// The four exchanges of rails.cc, and the parts that each rank serves there.

namespace tutti::algorithms::rails {

struct Range {
  int first = 0;
  int count = 0;
};

/// The ranks by host and rail.
class Grid {
 public:
  explicit Grid(const Shape& shape)
      : ranks_(shape.ranks), width_(std::min(shape.radix, shape.ranks)), hosts_((ranks_ + width_ - 1) / width_) {}

  int hosts() const { return hosts_; }
  int host_of(int rank) const { return rank / width_; }
  int first_of(int host) const { return host * width_; }
  int size_of(int host) const { return std::min(width_, ranks_ - first_of(host)); }
  int rail_of(int rank) const { return rank % width_; }
  /// The rank that serves a rail on a host.
  int server(int host, int rail) const { return first_of(host) + rail % size_of(host); }
  /// Hosts with a rank of their own on a rail: those before the last, and perhaps that.
  int owners(int rail) const { return rail < size_of(hosts_ - 1) ? hosts_ : hosts_ - 1; }
  /// The rails that a rank serves.
  std::vector<int> rails_of(int rank) const {
    std::vector<int> rails;
    for (int rail = rail_of(rank); rail < width_; rail += size_of(host_of(rank))) rails.push_back(rail);
    return rails;
  }

 private:
  int ranks_;
  int width_;
  int hosts_;
};

/// Rank q owns part q.
struct ByRank {
  const Grid& grid;
  int part(int host, int rail) const { return grid.first_of(host) + rail; }
  /// The parts of the rails that a rank serves, in as few pieces as they can be sent.
  std::vector<Range> served_by(int rank) const {
    std::vector<Range> ranges;
    for (const int rail : grid.rails_of(rank))
      for (int host = 0; host < grid.owners(rail); ++host) ranges.push_back({part(host, rail), 1});
    return ranges;
  }
};

/// For parts that may be dealt out at will: those of a rail are neighbours.
struct ByRail {
  const Grid& grid;
  int first_of(int rail) const {
    int first = 0;
    for (int before = 0; before < rail; ++before) first += grid.owners(before);
    return first;
  }
  int part(int host, int rail) const { return first_of(rail) + host; }
  std::vector<Range> served_by(int rank) const {
    std::vector<Range> ranges;
    for (const int rail : grid.rails_of(rank)) ranges.push_back({first_of(rail), grid.owners(rail)});
    return ranges;
  }
};

/// Blocks of parts in one piece of the pipeline.
struct Piece {
  Buffer buffer;
  int first;  ///< block of part 0
  int each;   ///< blocks of a part
  Blocks operator()(Range parts) const { return {buffer, first + parts.first * each, parts.count * each}; }
  Blocks operator()(int part) const { return (*this)({part, 1}); }
};

/// One exchange among the ranks of a host, or of a rail, of which this is number `self` of `count`: in round d with
/// those d places ahead and behind.
void for_rounds(int self, int count, auto act) {
  const Ring ring{self, count};
  for (int distance = 1; distance < count; ++distance) act(ring.ahead(distance), ring.behind(distance));
}

/// Sends and receives in turn: a sender that had to wait for a receiver to take the first of its messages would else
/// keep that one waiting, which does the same.
void alternate(std::size_t sends, std::size_t receives, auto send, auto receive) {
  for (std::size_t i = 0; i < std::max(sends, receives); ++i) {
    if (i < sends) send(i);
    if (i < receives) receive(i);
  }
}

template <class Owned>
class Exchanges {
 public:
  Exchanges(PlanBuilder& plan, const Shape& shape)
      : plan_(plan), grid_(shape), rank_(shape.rank), host_(grid_.host_of(rank_)), rails_(grid_.rails_of(rank_)) {}

  bool is_alone_on_host() const { return grid_.size_of(host_) == 1; }
  std::vector<Range> served() const { return owned_.served_by(rank_); }
  int own_part() const { return owned_.part(host_, grid_.rail_of(rank_)); }

  /// Sums of the host, of the parts that this rank serves; `sum(i)` is where the i-th range of them belongs.
  void sum_on_host(const Piece& input, auto sum) {
    const std::vector<Range> mine = served();
    bool first = true;
    for_neighbours([&](int to, int from) {
      const std::vector<Range> theirs = owned_.served_by(to);
      alternate(
          theirs.size(), mine.size(), [&](std::size_t i) { plan_.send(to, input(theirs[i])); },
          [&](std::size_t i) { plan_.recv_reduce(from, sum(i), first ? input(mine[i]) : sum(i)); });
      first = false;
    });
  }
  /// Sends the owners of parts what this host has of them, `have(part)`, and sums this rank's own part in `sum`.
  void sum_on_rails(auto have, Blocks sum) {
    Blocks own = have(own_part());
    for (const int rail : rails_)
      for_rounds(host_, grid_.hosts(), [&](int ahead, int behind) {
        if (owns(ahead, rail)) plan_.send(grid_.server(ahead, rail), have(owned_.part(ahead, rail)));
        if (owns(host_, rail)) plan_.recv_reduce(grid_.server(behind, rail), sum, std::exchange(own, sum));
      });
  }
  /// Sends this rank's part, `own`, to all hosts, and receives those of the others into `output`.
  void gather_on_rails(Blocks own, const Piece& output) {
    for (const int rail : rails_)
      for_rounds(host_, grid_.hosts(), [&](int ahead, int behind) {
        if (owns(host_, rail)) plan_.send(grid_.server(ahead, rail), own);
        if (owns(behind, rail)) plan_.recv(grid_.server(behind, rail), output(owned_.part(behind, rail)));
      });
  }
  /// All ranks of the host get all parts; `have` is where those are that this rank serves.
  void gather_on_host(auto have, const Piece& output) {
    const std::vector<Range> mine = served();
    for_neighbours([&](int to, int from) {
      const std::vector<Range> theirs = owned_.served_by(from);
      alternate(
          mine.size(), theirs.size(), [&](std::size_t i) { plan_.send(to, have(mine[i])); },
          [&](std::size_t i) { plan_.recv(from, output(theirs[i])); });
    });
  }

 private:
  /// Whether the rank that serves the rail on that host has a part of its own in it.
  bool owns(int host, int rail) const { return host < grid_.owners(rail); }
  void for_neighbours(auto act) {
    const int first = grid_.first_of(host_);
    for_rounds(rank_ - first, grid_.size_of(host_), [&](int ahead, int behind) { act(first + ahead, first + behind); });
  }

  PlanBuilder& plan_;
  const Grid grid_;
  const Owned owned_{grid_};
  const int rank_;
  const int host_;
  const std::vector<int> rails_;
};

}  // namespace tutti::algorithms::rails
