// A rank that works until it is told to stop, and checks everything it gets: what strangers try to disturb.
//
//   rounds ELEMENTS MILLISECONDS    rank 0 reads from standard input: "count" prints how many rounds are done, the end
//                                   stops all; it waits so long for a word after each round

#include <poll.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

/// What the test wants of rank 0 now; an empty line where it has nothing to say.
enum class Wish { nothing, count, stop };

Wish wish_of_test(int milliseconds) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, milliseconds) <= 0) return Wish::nothing;
  char line[64];
  return ::read(STDIN_FILENO, line, sizeof line) > 0 ? Wish::count : Wish::stop;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Every element is right on this rank.
bool reduce(tutti::Communicator& comm, std::vector<long>& data, long round) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = round + comm.rank() + static_cast<long>(i);
  comm.all_reduce(data, tutti::sum);
  const long ranks = comm.size();
  for (std::size_t i = 0; i < data.size(); ++i)
    if (data[i] != ranks * (round + static_cast<long>(i)) + ranks * (ranks - 1) / 2) return false;
  return true;
}

int work(std::size_t elements, int milliseconds) {
  auto comm = tutti::connect();
  std::vector<long> data(elements);
  std::vector<int> stop(1);
  long wrong = 0;
  long round = 0;
  for (; stop[0] == 0; ++round) {
    wrong += reduce(comm, data, round) ? 0 : 1;
    if (comm.rank() == 0) {
      const Wish wish = wish_of_test(milliseconds);
      stop[0] = wish == Wish::stop ? 1 : 0;
      if (wish == Wish::count || round == 0) {
        std::printf("%ld %.6f\n", round, now());
        std::fflush(stdout);
      }
    }
    comm.broadcast(stop, 0);
  }
  std::printf("done %ld wrong %ld\n", round, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) return 2;
    return work(std::strtoul(argv[1], nullptr, 10), std::atoi(argv[2]));
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::name_of(error.code()), error.what());
    return 1;
  }
}
