#pragma once

#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tests/support/reference.h"
#include "tutti/tutti.h"

namespace tutti::testing {

/// One cell of the matrix: a collective called in one way on one rank, and whether the result was right.
struct Cell {
  Collective collective{};
  std::string algorithm;
  OpKind op = OpKind::sum;
  std::size_t count = 0;
  bool in_place = false;
  bool variable = false;
  int root = 0;
};

/// Runs cells for elements of type T on one rank. Every method is called on all ranks alike; returns "" or what is
/// wrong.
template <class T>
class Cells {
 public:
  explicit Cells(Communicator& comm) : comm_(comm), n_(static_cast<std::size_t>(comm.size())) {}

  std::string run(const Cell& cell) {
    cell_ = cell;
    counts_.resize(n_);
    for (std::size_t k = 0; k < n_; ++k)
      counts_[k] = cell.variable ? (k * 3 + cell.count) % 4 * cell.count / 2 : cell.count;
    first_ = std::accumulate(counts_.begin(), counts_.begin() + comm_.rank(), std::size_t{0});
    total_ = std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
    mine_ = counts_[static_cast<std::size_t>(comm_.rank())];
    switch (cell.collective) {
      case Collective::all_reduce:
        return all_reduce();
      case Collective::reduce:
        return reduce();
      case Collective::broadcast:
        return broadcast();
      case Collective::all_gather:
        return all_gather();
      case Collective::gather:
        return gather();
      case Collective::scatter:
        return scatter();
      case Collective::reduce_scatter:
        return reduce_scatter();
      case Collective::all_to_all:
        return cell.variable ? all_to_all_v() : all_to_all();
      case Collective::barrier:
        comm_.barrier(call());
        return "";
      case Collective::scan:
        return scan(comm_.rank() + 1);
      case Collective::exclusive_scan:
        return scan(comm_.rank());
    }
    return "unknown collective";
  }

 private:
  using Array = std::unique_ptr<T[]>;  // not std::vector: that of bool has no elements

  CallOptions call() const { return {.algorithm = cell_.algorithm}; }
  bool at_root() const { return comm_.rank() == cell_.root; }

  /// `count` elements after which a sentinel shows who writes too far.
  Array filled(std::size_t count, int rank, std::size_t first) const {
    Array data{new T[count + 1]};
    for (std::size_t i = 0; i < count; ++i) data[i] = contribution<T>(rank, first + i, cell_.op);
    data[count] = make<T>(1);
    return data;
  }
  static Array empty(std::size_t count) {
    Array data{new T[count + 1]};
    for (std::size_t i = 0; i < count; ++i) data[i] = T{};
    data[count] = make<T>(1);
    return data;
  }

  template <class Expected>
  static std::string compare(const T* data, std::size_t count, const char* what, Expected&& expected) {
    for (std::size_t i = 0; i < count; ++i)
      if (!(data[i] == expected(i)))
        return std::string(what) + " differs at " + std::to_string(i) + " of " + std::to_string(count);
    if (!(data[count] == make<T>(1))) return std::string(what) + ": written past its end";
    return "";
  }
  /// Inputs are read only.
  std::string unchanged(const Array& data, std::size_t count, std::size_t first) const {
    return compare(data.get(), count, "input",
                   [&](std::size_t i) { return contribution<T>(comm_.rank(), first + i, cell_.op); });
  }
  T result(std::size_t index) const { return reduced<T>(comm_.size(), index, cell_.op); }

  std::string all_reduce() {
    const std::size_t count = cell_.count;
    Array in = filled(count, comm_.rank(), 0);
    const auto expected = [&](std::size_t i) { return result(i); };
    if (cell_.in_place) {
      comm_.all_reduce(std::span(in.get(), count), op_of(cell_.op), call());
      return compare(in.get(), count, "result", expected);
    }
    Array out = empty(count);
    comm_.all_reduce(std::span<const T>(in.get(), count), std::span(out.get(), count), op_of(cell_.op), call());
    const std::string wrong = compare(out.get(), count, "result", expected);
    return wrong.empty() ? unchanged(in, count, 0) : wrong;
  }

  std::string reduce() {
    const std::size_t count = cell_.count;
    Array in = filled(count, comm_.rank(), 0);
    const auto expected = [&](std::size_t i) { return result(i); };
    if (cell_.in_place) {
      comm_.reduce(std::span(in.get(), count), op_of(cell_.op), cell_.root, call());
      return at_root() ? compare(in.get(), count, "result", expected) : unchanged(in, count, 0);
    }
    Array out = empty(count);
    comm_.reduce(std::span<const T>(in.get(), count), std::span(out.get(), at_root() ? count : 0), op_of(cell_.op),
                 cell_.root, call());
    const std::string wrong = at_root() ? compare(out.get(), count, "result", expected) : "";
    return wrong.empty() ? unchanged(in, count, 0) : wrong;
  }

  std::string broadcast() {
    Array data = at_root() ? filled(cell_.count, cell_.root, 0) : empty(cell_.count);
    comm_.broadcast(std::span(data.get(), cell_.count), cell_.root, call());
    return compare(data.get(), cell_.count, "result",
                   [&](std::size_t i) { return contribution<T>(cell_.root, i, cell_.op); });
  }

  /// Combines the first `ranks` ranks; if there are none, output must not be written.
  std::string scan(int ranks) {
    const std::size_t count = cell_.count;
    Array in = filled(count, comm_.rank(), 0);
    Array out = empty(count);
    const std::span<const T> source{in.get(), count};
    const std::span target{cell_.in_place ? in.get() : out.get(), count};
    if (cell_.collective == Collective::scan) {
      comm_.scan(source, target, op_of(cell_.op), call());
    } else {
      comm_.exclusive_scan(source, target, op_of(cell_.op), call());
    }
    if (ranks == 0) {
      const std::string wrong = compare(out.get(), count, "output of rank 0", [](std::size_t) { return T{}; });
      return wrong.empty() ? unchanged(in, count, 0) : wrong;
    }
    const std::string wrong =
        compare(target.data(), count, "result", [&](std::size_t i) { return reduced<T>(ranks, i, cell_.op); });
    return wrong.empty() && !cell_.in_place ? unchanged(in, count, 0) : wrong;
  }

  /// Element i of all parts one after the other, where part k is what rank k brings.
  T gathered(std::size_t i) const {
    std::size_t k = 0;
    for (; i >= counts_[k]; ++k) i -= counts_[k];
    return contribution<T>(static_cast<int>(k), i, cell_.op);
  }

  std::string all_gather() {
    Array out = empty(total_);
    Array in = filled(mine_, comm_.rank(), 0);
    std::span<T> source{in.get(), mine_};
    if (cell_.in_place) {
      source = {out.get() + first_, mine_};
      std::copy(in.get(), in.get() + mine_, source.begin());
    }
    const std::span target{out.get(), total_};
    if (cell_.variable) {
      comm_.all_gather_v(source, target, counts_, call());
    } else {
      comm_.all_gather(source, target, call());
    }
    return compare(out.get(), total_, "result", [&](std::size_t i) { return gathered(i); });
  }

  std::string gather() {
    const std::size_t size = at_root() ? total_ : 0;
    Array out = empty(size);
    Array in = filled(mine_, comm_.rank(), 0);
    std::span<T> source{in.get(), mine_};
    if (cell_.in_place && at_root()) {
      source = {out.get() + first_, mine_};
      std::copy(in.get(), in.get() + mine_, source.begin());
    }
    const std::span target{out.get(), size};
    if (cell_.variable) {
      comm_.gather_v(source, target, counts_, cell_.root, call());
    } else {
      comm_.gather(source, target, cell_.root, call());
    }
    const std::string wrong = compare(out.get(), size, "result", [&](std::size_t i) { return gathered(i); });
    return wrong.empty() ? unchanged(in, mine_, 0) : wrong;
  }

  std::string scatter() {
    Array in = filled(at_root() ? total_ : 0, cell_.root, 0);
    Array out = empty(mine_);
    const std::span<const T> source{in.get(), at_root() ? total_ : 0};
    const bool inside = cell_.in_place && at_root();
    const std::span target = inside ? std::span{in.get() + first_, mine_} : std::span{out.get(), mine_};
    if (cell_.variable) {
      comm_.scatter_v(source, counts_, target, cell_.root, call());
    } else {
      comm_.scatter(source, target, cell_.root, call());
    }
    if (inside) return unchanged(in, total_, 0);
    return compare(out.get(), mine_, "result",
                   [&](std::size_t i) { return contribution<T>(cell_.root, first_ + i, cell_.op); });
  }

  std::string reduce_scatter() {
    Array in = filled(total_, comm_.rank(), 0);
    Array out = empty(mine_);
    const std::span<const T> source{in.get(), total_};
    const std::span target = cell_.in_place ? std::span{in.get() + first_, mine_} : std::span{out.get(), mine_};
    if (cell_.variable) {
      comm_.reduce_scatter_v(source, target, counts_, op_of(cell_.op), call());
    } else {
      comm_.reduce_scatter(source, target, op_of(cell_.op), call());
    }
    for (std::size_t i = 0; i < mine_; ++i)
      if (!(target[i] == result(first_ + i))) return "result differs at " + std::to_string(i);
    return cell_.in_place ? "" : unchanged(in, total_, 0);
  }

  std::string all_to_all() {
    const std::size_t size = n_ * cell_.count;
    Array in = filled(size, comm_.rank(), 0);
    Array out = empty(size);
    const std::span target = cell_.in_place ? std::span{in.get(), size} : std::span{out.get(), size};
    comm_.all_to_all(std::span<const T>(in.get(), size), target, call());
    const std::size_t own = static_cast<std::size_t>(comm_.rank()) * cell_.count;
    for (std::size_t i = 0; i < size; ++i)
      if (!(target[i] == contribution<T>(static_cast<int>(i / cell_.count), own + i % cell_.count, cell_.op)))
        return "result differs at " + std::to_string(i);
    return cell_.in_place ? "" : unchanged(in, size, 0);
  }

  /// What rank `from` sends to rank `to`.
  std::size_t exchanged(std::size_t from, std::size_t to) const { return (from * 2 + to) % 3 * cell_.count; }

  std::string all_to_all_v() {
    const auto me = static_cast<std::size_t>(comm_.rank());
    std::vector<std::size_t> send(n_);
    std::vector<std::size_t> recv(n_);
    for (std::size_t k = 0; k < n_; ++k) {
      send[k] = exchanged(me, k);
      recv[k] = exchanged(k, me);
    }
    const std::size_t in_size = std::accumulate(send.begin(), send.end(), std::size_t{0});
    const std::size_t out_size = std::accumulate(recv.begin(), recv.end(), std::size_t{0});
    Array in = filled(in_size, comm_.rank(), 0);
    Array out = empty(out_size);
    comm_.all_to_all_v(std::span<const T>(in.get(), in_size), send, std::span(out.get(), out_size), recv, call());
    std::size_t i = 0;
    for (std::size_t k = 0; k < n_; ++k) {
      std::size_t offset = 0;
      for (std::size_t j = 0; j < me; ++j) offset += exchanged(k, j);
      for (std::size_t e = 0; e < recv[k]; ++e, ++i)
        if (!(out[i] == contribution<T>(static_cast<int>(k), offset + e, cell_.op)))
          return "result differs at " + std::to_string(i);
    }
    return unchanged(in, in_size, 0);
  }

  Communicator& comm_;
  std::size_t n_;
  Cell cell_;
  std::vector<std::size_t> counts_;
  std::size_t first_ = 0;
  std::size_t total_ = 0;
  std::size_t mine_ = 0;
};

}  // namespace tutti::testing
