// Reduce-scatter: the sum of all ranks' vectors, of which every rank gets one part. Followed by an all-gather, it is an
// all-reduce. The ring works in this way, and optimizers are sharded in this way.
#include <tutti/tutti.h>

#include <cstdio>
#include <vector>

int main() {
  auto comm = tutti::connect();
  const auto n = static_cast<std::size_t>(comm.size());
  constexpr std::size_t each = 3;
  std::vector<long> gradient(each * n);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<long>(i) * (comm.rank() + 1);

  std::vector<long> part(each);
  comm.reduce_scatter(gradient, part, tutti::sum);
  std::vector<long> whole(each * n);
  comm.all_gather(part, whole);

  comm.all_reduce(gradient, tutti::sum);  // the same in one call
  std::printf("rank %d owns %ld %ld %ld\n", comm.rank(), part[0], part[1], part[2]);
  const long expected = static_cast<long>(gradient.size() - 1) * comm.size() * (comm.size() + 1) / 2;
  return whole == gradient && whole.back() == expected ? 0 : 1;
}
