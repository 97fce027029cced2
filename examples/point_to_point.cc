// Point to point: one rank sends, another one receives. Blocking calls for a question and its answer; non-blocking ones
// where everybody sends at the same time and would otherwise wait for everybody else; and one call for both directions.
#include <tutti/tutti.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int question = 1;  // tags keep messages apart
constexpr int answer = 2;

/// Rank 0 asks each of the others in the order in which they report.
bool ask(tutti::Communicator& comm) {
  if (comm.rank() != 0) {
    comm.send(std::vector<int>(static_cast<std::size_t>(comm.rank()), 7), 0, {.tag = question});
    std::vector<int> reply(1);
    comm.recv(reply, 0, {.tag = answer});
    return reply[0] == 7 * comm.rank();
  }
  for (int i = 1; i < comm.size(); ++i) {
    std::vector<int> numbers(100);
    const tutti::MessageStatus got = comm.recv(numbers, tutti::any_source, {.tag = question});
    int sum = 0;
    for (std::size_t k = 0; k < got.count; ++k) sum += numbers[k];
    comm.send(std::vector<int>{sum}, got.source, {.tag = answer});
  }
  return true;
}

/// Everybody hands a megabyte to the right and gets one from the left.
bool pass_to_the_right(tutti::Communicator& comm) {
  const int right = (comm.rank() + 1) % comm.size();
  const int left = (comm.rank() + comm.size() - 1) % comm.size();
  const std::vector<int> out(1 << 18, comm.rank());
  std::vector<int> in(out.size());

  tutti::Work receive = comm.irecv(in, left);
  tutti::Work send = comm.isend(out, right);
  send.wait();  // until then `out` must not change
  receive.wait();
  std::printf("rank %d got %zu numbers from rank %d\n", comm.rank(), receive.status().count, receive.status().source);
  return in == std::vector<int>(in.size(), left);
}

/// Everybody hands a number to the left and gets one from the right, in one call.
bool pass_to_the_left(tutti::Communicator& comm) {
  const int right = (comm.rank() + 1) % comm.size();
  const int left = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<int> in(1);
  comm.sendrecv(std::vector<int>{comm.rank()}, left, in, right);
  return in[0] == right;
}

}  // namespace

int main() {
  auto comm = tutti::connect();
  const bool answered = ask(comm);
  const bool passed = pass_to_the_right(comm);
  return pass_to_the_left(comm) && passed && answered ? 0 : 1;
}
