// Broadcast: one rank, the root, has something, and afterwards every rank has it.
#include <tutti/tutti.h>

#include <array>
#include <cstdio>

int main() {
  auto comm = tutti::connect();
  const std::array<double, 3> wanted = {0.001, 0.9, 64};  // learning rate, momentum, batch
  std::array<double, 3> settings{};
  if (comm.rank() == 0) settings = wanted;  // say, read from a file that only rank 0 can see

  comm.broadcast(settings, 0);

  std::printf("rank %d: learning rate %g, momentum %g, batch %g\n", comm.rank(), settings[0], settings[1], settings[2]);
  return settings == wanted ? 0 : 1;
}
