// Scatter deals one vector out to all ranks; gather collects one part per rank again.
//
//     root: [a b c d e f g h]  -- scatter -->  [a b] [c d] [e f] [g h]  -- gather -->  root
#include <tutti/tutti.h>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  auto comm = tutti::connect();
  constexpr std::size_t each = 2;
  constexpr int root = 0;

  std::vector<int> all;  // empty everywhere but on the root
  if (comm.rank() == root) all.resize(each * static_cast<std::size_t>(comm.size()));
  std::iota(all.begin(), all.end(), 0);

  std::vector<int> mine(each);
  comm.scatter(all, mine, root);
  for (int& value : mine) value *= value;  // every rank works on its part
  comm.gather(mine, all, root);

  const int first = comm.rank() * static_cast<int>(each);
  bool right = mine == std::vector<int>{first * first, (first + 1) * (first + 1)};
  for (std::size_t i = 0; i < all.size(); ++i) right = right && all[i] == static_cast<int>(i * i);
  std::printf("rank %d squared %d and %d\n", comm.rank(), first, first + 1);
  return right ? 0 : 1;
}
