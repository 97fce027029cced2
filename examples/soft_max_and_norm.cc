// Two everyday reductions over a vector that is spread over the ranks: the L2 norm, and the soft-max
//
//     p_i = exp(x_i - m) / sum_k exp(x_k - m),   m = max_k x_k   (without m the exponentials overflow)
//
// No rank ever has the whole vector; two all-reduces of one number each suffice.
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

double element(std::size_t i) { return 1000.0 + 3.0 * std::sin(static_cast<double>(i)); }

double reduced(tutti::Communicator& comm, double value, const tutti::Op& op) {
  std::array<double, 1> cell = {value};
  comm.all_reduce(cell, op);
  return cell[0];
}

}  // namespace

int main() {
  auto comm = tutti::connect();
  constexpr std::size_t total = 1003;  // not a multiple of size(): rank r has every size()-th element, from r on
  std::vector<double> mine;
  for (auto i = static_cast<std::size_t>(comm.rank()); i < total; i += static_cast<std::size_t>(comm.size()))
    mine.push_back(element(i));

  double squares = 0;
  double largest = -INFINITY;
  for (const double x : mine) {
    squares += x * x;
    largest = std::max(largest, x);
  }
  const double norm = std::sqrt(reduced(comm, squares, tutti::sum));

  const double shift = reduced(comm, largest, tutti::max);
  double sum = 0;
  for (double& x : mine) sum += x = std::exp(x - shift);
  const double divisor = reduced(comm, sum, tutti::sum);
  double probability = 0;
  for (double& x : mine) probability += x /= divisor;
  const double one = reduced(comm, probability, tutti::sum);

  double expected = 0;  // computed by one rank alone
  for (std::size_t i = 0; i < total; ++i) expected += element(i) * element(i);
  if (comm.rank() == 0) std::printf("norm %.9g, probabilities add up to %.15g\n", norm, one);
  return std::abs(norm - std::sqrt(expected)) < 1e-9 * norm && std::abs(one - 1) < 1e-12 ? 0 : 1;
}
