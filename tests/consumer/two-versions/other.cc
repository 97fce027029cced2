// Compiled with the headers of another version of tutti than program.cc.
#include <tutti/tutti.h>

#include <atomic>
#include <vector>

int other_sum() {
  std::atomic<int> sum = 0;
  tutti::run_threads(2, [&](tutti::Communicator& comm) {
    std::vector<int> data(1, comm.rank() + 1);
    comm.all_reduce(data, tutti::sum);
    sum += data[0];
  });
  return sum;
}
