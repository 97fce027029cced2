// Reduce: every rank brings a vector, and the root gets their sum, element by element (or the largest, or ...).
#include <tutti/tutti.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  auto comm = tutti::connect();
  const int n = comm.size();
  const std::vector<int> mine = {1, comm.rank(), -comm.rank()};

  std::vector<int> sums(3);  // written on the root only
  comm.reduce(mine, sums, tutti::sum, 0);
  std::vector<int> largest = mine;  // in place: the root's result replaces what it brought
  comm.reduce(largest, tutti::max, 0);

  // An operation of your own: the length of the hypotenuse is associative, too.
  const auto hypotenuse = tutti::user_op<float>([](float a, float b) { return std::hypot(a, b); });
  std::vector<float> length = {1.0F};
  comm.reduce(length, hypotenuse, 0);

  if (comm.rank() != 0) return 0;
  std::printf("rank 0 got sums %d %d %d, maxima %d %d %d, length %g\n", sums[0], sums[1], sums[2], largest[0],
              largest[1], largest[2], static_cast<double>(length[0]));
  const int all_ranks = n * (n - 1) / 2;
  const bool right = sums == std::vector<int>{n, all_ranks, -all_ranks} && largest == std::vector<int>{1, n - 1, 0} &&
                     std::abs(length[0] - std::sqrt(static_cast<float>(n))) < 1e-5F;
  return right ? 0 : 1;
}
