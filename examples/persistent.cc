// Persistent operations: an all-reduce prepared once and run a thousand times, with other work in between.
#include <tutti/tutti.h>

#include <cstdio>
#include <vector>

int main() {
  auto comm = tutti::connect();
  std::vector<double> mine(4), all(4);
  auto exchange = comm.prepare().all_reduce(mine, all, tutti::sum);
  double own = 0, total = 0;
  for (int step = 0; step < 1000; ++step) {
    for (double& value : mine) value = step + comm.rank();
    exchange.start();
    own += mine[0];  // reading what is being sent is fine
    exchange.wait();
    total += all[3];
  }
  std::printf("rank %d of %d: own %.0f, all %.0f\n", comm.rank(), comm.size(), own, total);
}
