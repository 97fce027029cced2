#include "cli/bench/control.h"

#include <array>
#include <cstdint>
#include <numeric>

namespace tutti::cli::bench {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Control::Control(Communicator& world, std::chrono::milliseconds timeout)
    : comm_(world.subgroup(all_ranks(world.size()))), options_{0, timeout} {}

void Control::barrier() {
  const std::array<std::uint8_t, 1> token{1};
  std::array<std::uint8_t, 1> incoming{};
  for (int step = 1; step < size(); step *= 2) {
    Work sending = comm_.isend(token, (rank() + step) % size(), options_);
    comm_.recv(incoming, (rank() - step + size()) % size(), options_);
    sending.wait();
  }
}

std::vector<double> Control::gather(std::span<const double> values) {
  if (rank() != 0) {
    comm_.send(values, 0, options_);
    return {};
  }
  std::vector<double> all(values.begin(), values.end());
  all.resize(values.size() * static_cast<std::size_t>(size()));
  for (int peer = 1; peer < size(); ++peer)
    comm_.recv(std::span{all}.subspan(static_cast<std::size_t>(peer) * values.size(), values.size()), peer, options_);
  return all;
}

std::vector<std::string> Control::gather_text(const std::string& mine) {
  const std::vector<double> lengths = gather(static_cast<double>(mine.size()));
  if (rank() != 0) {
    comm_.send(std::vector<std::uint8_t>(mine.begin(), mine.end()), 0, options_);
    return {};
  }
  std::vector<std::string> all{mine};
  for (int peer = 1; peer < size(); ++peer) {
    std::vector<std::uint8_t> text(static_cast<std::size_t>(lengths[static_cast<std::size_t>(peer)]));
    comm_.recv(text, peer, options_);
    all.emplace_back(text.begin(), text.end());
  }
  return all;
}

double Control::from_first(double value) {
  std::array<double, 1> held{value};
  for (int peer = 1; rank() == 0 && peer < size(); ++peer) comm_.send(held, peer, options_);
  if (rank() != 0) comm_.recv(held, 0, options_);
  return held[0];
}

}  // namespace tutti::cli::bench
