// Averages gradients in memory that all ranks of a host see: a rank reads the data of another rank in place.
#include <tutti/tutti.h>

#include <cstdio>

int main() {
  auto comm = tutti::connect();
  auto gradients = tutti::allocate<float>(comm, 1'000'000);
  for (int step = 0; step < 10; ++step) {
    for (float& gradient : gradients) gradient = static_cast<float>(step + comm.rank());
    comm.all_reduce(gradients, tutti::avg);
  }
  std::printf("rank %d of %d: average %.1f in %s memory\n", comm.rank(), comm.size(), gradients[999'999],
              gradients.is_shared() ? "shared" : "ordinary");
}
