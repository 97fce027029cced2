// A ring all-reduce written by hand on isend and irecv, beside the built-in one.
//
// The vector is cut into one part per rank. In n - 1 steps every part travels once around the ring and collects what
// each rank adds; in n - 1 more steps the finished parts travel around and are copied.
#include <tutti/tutti.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <vector>

namespace {

using Seconds = std::chrono::duration<double>;

void ring_all_reduce(tutti::Communicator& comm, std::span<float> data) {
  const int n = comm.size();
  const int next = (comm.rank() + 1) % n;
  const int previous = (comm.rank() + n - 1) % n;
  const auto part = [&](int index) {
    const auto i = static_cast<std::size_t>((index % n + n) % n);
    const auto parts = static_cast<std::size_t>(n);
    const std::size_t begin = data.size() * i / parts;
    return data.subspan(begin, data.size() * (i + 1) / parts - begin);
  };

  std::vector<float> arrived(data.size() / static_cast<std::size_t>(n) + 1);
  for (int step = 0; step < n - 1; ++step) {
    const std::span<float> mine = part(comm.rank() - step - 1);
    tutti::Work receive = comm.irecv(std::span(arrived).first(mine.size()), previous);
    comm.isend(part(comm.rank() - step), next).wait();
    receive.wait();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += arrived[i];
  }
  for (int step = 0; step < n - 1; ++step) {
    tutti::Work receive = comm.irecv(part(comm.rank() - step), previous);
    comm.isend(part(comm.rank() - step + 1), next).wait();
    receive.wait();
  }
}

template <class Body>
double milliseconds(tutti::Communicator& comm, Body body) {
  comm.barrier();
  const auto start = std::chrono::steady_clock::now();
  body();
  return 1000 * Seconds(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main() {
  auto comm = tutti::connect();
  std::vector<float> by_hand(1'000'003);  // not a multiple of the number of ranks
  for (std::size_t i = 0; i < by_hand.size(); ++i)
    by_hand[i] = static_cast<float>(i % 1000) * static_cast<float>(comm.rank() + 1);
  std::vector<float> built_in = by_hand;

  const double slow = milliseconds(comm, [&] { ring_all_reduce(comm, by_hand); });
  const double fast = milliseconds(comm, [&] { comm.all_reduce(built_in, tutti::sum, {.algorithm = "ring"}); });

  if (comm.rank() == 0) std::printf("%zu floats: by hand %.2f ms, built in %.2f ms\n", by_hand.size(), slow, fast);
  return by_hand == built_in ? 0 : 1;  // whole numbers below 2^24: no rounding, so equal to the bit
}
