// Programs that must not compile, one per CASE; without a CASE this file must compile, so that a case can only fail for
// its own reason. After `//` stands what the compiler's message must contain.
#include <tutti/tutti.h>

#include <array>
#include <span>
#include <string>
#include <vector>

void calls(tutti::Communicator& comm) {
  std::vector<float> floats(8), more_floats(8);
  const std::vector<float> constant(8);
  std::vector<double> doubles(8);
  std::vector<std::string> words(8);
#if CASE == 1  // constraint
  comm.all_reduce(words, tutti::sum);
#elif CASE == 2  // constraint
  comm.all_reduce(constant, tutti::sum);
#elif CASE == 3  // constraint
  comm.all_reduce(floats, constant, tutti::sum);
#elif CASE == 4  // constraint
  comm.all_reduce(floats, doubles, tutti::sum);
#elif CASE == 5  // unused
  comm.all_reduce_async(floats, tutti::sum);
#elif CASE == 6  // constraint
  comm.recv(constant, 0);
#elif CASE == 7  // deleted|private
  tutti::Communicator copy = comm;
#elif CASE == 8  // constraint
  std::vector<bool> bits(8);
  comm.broadcast(bits);
#else
  comm.all_reduce(floats, tutti::sum);
  comm.all_reduce(constant, floats, tutti::max);
  comm.all_gather(std::array<double, 1>{1.0}, std::span{doubles});
  tutti::Work work = comm.all_reduce_async(more_floats, tutti::sum);
  work.wait();
  comm.send(constant, 0);
  comm.recv(floats, 0);
  comm.broadcast(doubles, {.root = 0});
  tutti::Communicator moved = std::move(comm);
#endif
}
