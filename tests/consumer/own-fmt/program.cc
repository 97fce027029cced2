// A program with an fmt of its own, in which vformat() always says the same, so that it shows who calls which.
#include <fmt/format.h>
#include <tutti/tutti.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

int main() {
  auto comm = tutti::connect();
  std::vector<float> data(1000);
  std::iota(data.begin(), data.end(), static_cast<float>(comm.rank()));
  comm.all_reduce(data, tutti::sum);
  try {
    comm.send(data, 99);
    return 1;
  } catch (const tutti::Error& error) {
    if (std::string{error.what()}.find("99 is not a rank") == std::string::npos) return 2;
  }
  if (fmt::format("{}", 1) != "own fmt") return 3;
  std::printf("rank %d of %d: %.0f\n", comm.rank(), comm.size(), static_cast<double>(data.back()));
}
