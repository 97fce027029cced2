#include "algorithms/stream_races.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::algorithms {

StreamRaces::StreamRaces(int ranks) : clocks_(at(ranks), Clock(at(ranks), 0)) {}

void StreamRaces::wait(int rank, std::size_t word, std::uint64_t value) {
  if (value == 0) return;
  const Clock& seen = signals_[word][value - 1];
  Clock& own = clock(rank);
  for (std::size_t other = 0; other < own.size(); ++other) own[other] = std::max(own[other], seen[other]);
}

std::string StreamRaces::read(int rank, const std::byte* data, std::size_t elements, std::size_t element_size) {
  for (std::size_t i = 0; i < elements; ++i) {
    Cell& cell = cells_[data + i * element_size];
    if (cell.writer >= 0 && !comes_after(rank, cell.writer, cell.written))
      return fmt::format("it reads what rank {} writes, and nothing orders the two", cell.writer);
    if (cell.read.empty()) cell.read.resize(clocks_.size());
    cell.read[at(rank)] = clock(rank)[at(rank)];
  }
  return {};
}

std::string StreamRaces::write(int rank, const std::byte* data, std::size_t elements, std::size_t element_size) {
  for (std::size_t i = 0; i < elements; ++i) {
    Cell& cell = cells_[data + i * element_size];
    if (cell.writer >= 0 && !comes_after(rank, cell.writer, cell.written))
      return fmt::format("it writes what rank {} writes, and nothing orders the two", cell.writer);
    for (int other = 0; other < static_cast<int>(cell.read.size()); ++other)
      if (!comes_after(rank, other, cell.read[at(other)]))
        return fmt::format("it writes what rank {} reads, and nothing orders the two", other);
    cell.writer = rank;
    cell.written = clock(rank)[at(rank)];
    cell.read.clear();
  }
  return {};
}

}  // namespace tutti::algorithms
