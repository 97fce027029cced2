#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/index.h"

namespace tutti::algorithms {

/// Finds accesses of the streams of several ranks to the same memory that no signals and waits order, however kind the
/// timing was: by a clock for each stream, which counts its commands, and what it knows of the others'.
class StreamRaces {
 public:
  explicit StreamRaces(int ranks);

  /// A rank's stream does its next command.
  void step(int rank) { ++clock(rank)[at(rank)]; }
  /// It sets the word `word`, of which there are any number, to its next value, from 1 on.
  void signal(int rank, std::size_t word) { signals_[word].push_back(clock(rank)); }
  /// It has seen `value` there, or more.
  void wait(int rank, std::size_t word, std::uint64_t value);
  /// Both return what is wrong with that, or nothing. Elements of a memory have one size.
  std::string read(int rank, const std::byte* data, std::size_t elements, std::size_t element_size);
  std::string write(int rank, const std::byte* data, std::size_t elements, std::size_t element_size);

 private:
  using Clock = std::vector<std::uint64_t>;
  struct Cell {
    int writer = -1;
    std::uint64_t written = 0;
    Clock read;  // by rank; empty: not since it was written
  };

  Clock& clock(int rank) { return clocks_[at(rank)]; }
  /// Whether the stream of `rank` comes after that of `other` at that time.
  bool comes_after(int rank, int other, std::uint64_t time) { return clock(rank)[at(other)] >= time; }

  std::vector<Clock> clocks_;
  std::unordered_map<std::size_t, std::vector<Clock>> signals_;
  std::unordered_map<const std::byte*, Cell> cells_;
};

}  // namespace tutti::algorithms
