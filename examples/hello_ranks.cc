// Ranks: the same program is started several times, and every copy learns which one it is.
//
//     build/tutti run -n 4 build/examples/hello_ranks
#include <tutti/tutti.h>

#include <cstdio>

int main() {
  try {
    auto comm = tutti::connect();  // rank, size and rendezvous from the launcher's environment
    std::printf("hello from rank %d of %d\n", comm.rank(), comm.size());
    comm.barrier();  // nobody gets past this line before everybody has reached it
    return comm.rank() < comm.size() ? 0 : 1;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());  // who, what, where, how far, and what to do about it
    return 1;
  }
}
