// All-reduce: every rank brings a gradient, every rank gets the average.
#include <tutti/tutti.h>

#include <cstdio>
#include <vector>

int main() {
  auto comm = tutti::connect();  // rank, size and rendezvous from the launcher's environment
  std::vector<float> gradient(1000, static_cast<float>(comm.rank()));
  comm.all_reduce(gradient, tutti::avg);
  std::printf("rank %d of %d: %g\n", comm.rank(), comm.size(), static_cast<double>(gradient[999]));
  return gradient[999] == static_cast<float>(comm.size() - 1) / 2 ? 0 : 1;
}
