// What a user's first program looks like; built here as a user would build it, against an installed tutti.
#include <tutti/tutti.h>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  try {
    auto comm = tutti::connect();  // rank, size and address from the launcher's environment
    std::vector<float> data(1000);
    std::iota(data.begin(), data.end(), static_cast<float>(comm.rank()));
    comm.all_reduce(data, tutti::sum);

    const int expected = comm.size() * 999 + comm.size() * (comm.size() - 1) / 2;
    if (data.back() != static_cast<float>(expected)) return 1;
    std::printf("rank %d of %d: %.0f\n", comm.rank(), comm.size(), static_cast<double>(data.back()));
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
