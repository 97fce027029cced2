// A chain: rank 0 hands a message to rank 1, which adds its name and hands it to rank 2.
#include <tutti/tutti.h>

#include <cstdio>
#include <string>

int main() {
  auto comm = tutti::connect();
  constexpr int last = 2;
  if (comm.size() <= last) {
    std::printf("rank %d: a chain of three needs three ranks\n", comm.rank());
    return 0;
  }

  std::string message = "rank 0";
  if (comm.rank() > 0 && comm.rank() <= last) {
    message.assign(100, '\0');  // room for the longest message; the status has the length of this one
    message.resize(comm.recv(message, comm.rank() - 1).count);
    message += " -> rank " + std::to_string(comm.rank());
  }
  if (comm.rank() < last) comm.send(message, comm.rank() + 1);

  if (comm.rank() != last) return 0;
  std::printf("%s\n", message.c_str());
  return message == "rank 0 -> rank 1 -> rank 2" ? 0 : 1;
}
