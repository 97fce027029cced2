// A program that uses one version of tutti, and a library that contains another.
#include <tutti/tutti.h>

#include <cstdio>
#include <numeric>
#include <vector>

int other_sum();

int main() {
  auto comm = tutti::connect();
  std::vector<float> data(1000);
  std::iota(data.begin(), data.end(), static_cast<float>(comm.rank()));
  comm.all_reduce(data, tutti::sum);
  if (other_sum() != 6) return 1;
  std::printf("rank %d of %d: %.0f\n", comm.rank(), comm.size(), static_cast<double>(data.back()));
}
