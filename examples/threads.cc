// Ranks as threads of one process: no launcher is needed, and one debugger sees all ranks.
#include <tutti/tutti.h>

#include <cstdio>
#include <span>

int main() {
  int total = 0;
  tutti::run_threads(4, [&](tutti::Communicator& comm) {
    int mine = comm.rank() + 1;
    comm.all_reduce(std::span{&mine, 1}, tutti::sum);
    if (comm.rank() == 0) total = mine;  // one rank writes what all threads read
  });
  std::printf("4 threads: %d\n", total);
  return total == 10 ? 0 : 1;
}
