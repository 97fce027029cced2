// All-to-all: every rank has one part for every rank. As a matrix with one row per rank, the data are transposed.
//
//     rank 0:  00 01 02        00 10 20
//     rank 1:  10 11 12  -->   01 11 21
//     rank 2:  20 21 22        02 12 22
#include <tutti/tutti.h>

#include <cstdio>
#include <string>
#include <vector>

int main() {
  auto comm = tutti::connect();
  const int n = comm.size();
  std::vector<int> row(static_cast<std::size_t>(n));
  for (int k = 0; k < n; ++k) row[static_cast<std::size_t>(k)] = 10 * comm.rank() + k;

  std::vector<int> column(row.size());
  comm.all_to_all(row, column);

  bool right = true;
  std::string line;
  for (int k = 0; k < n; ++k) {
    const int value = column[static_cast<std::size_t>(k)];
    right = right && value == 10 * k + comm.rank();
    line += (value < 10 ? " 0" : " ") + std::to_string(value);
  }
  std::printf("rank %d:%s\n", comm.rank(), line.c_str());
  return right ? 0 : 1;
}
