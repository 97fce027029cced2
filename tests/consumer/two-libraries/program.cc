// A program of two shared libraries, each of which contains tutti: what one of them makes is used, and caught, by
// others.
#include <tutti/tutti.h>

#include <cstdio>
#include <numeric>
#include <vector>

tutti::Communicator join();                                        // of libone.so
void add_up(tutti::Communicator& comm, std::vector<float>& data);  // of libtwo.so
void send_nowhere(tutti::Communicator& comm);

int main() {
  auto comm = join();
  std::vector<float> data(1000);
  std::iota(data.begin(), data.end(), static_cast<float>(comm.rank()));
  add_up(comm, data);
  try {
    send_nowhere(comm);
    return 1;
  } catch (const tutti::Error& error) {
    if (error.code() != tutti::ErrorCode::invalid_argument) return 2;
  }
  std::printf("rank %d of %d: %.0f\n", comm.rank(), comm.size(), static_cast<double>(data.back()));
}
