// A small client for the tests of bad input: joins, calls one all_reduce, and prints the sum or the error's message.
//
//   join [--count N] [--input-span N] [--output-span N] [--overlap N] [--algorithm NAME] [--transport LIST]
//        [--transports] [--congestion] [--repeat] [--shrink] [--gather]
//
// --transport is ConnectOptions::transport; --transports prints those in use.
// --congestion prints the congestion control of the TCP connections that have carried a megabyte.
//
// --gather gathers as many elements at rank 0, and ends at once.
// --repeat goes on with the all_reduce until it fails; --shrink does, too, and then calls one with the survivors.

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tutti/tutti.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Wishes {
  std::size_t count = 1000;
  long input_span = -1;  // elements, when not `count`
  long output_span = -1;
  long overlap = -1;  // the output begins this many elements into the input
  std::string algorithm;
  std::string transport;
  bool transports = false;
  bool congestion = false;
  bool gather = false;
  bool repeat = false;
  bool shrink = false;
};

Wishes parse(int argc, char** argv) {
  Wishes wishes;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--transports" || word == "--congestion" || word == "--gather" || word == "--repeat" ||
        word == "--shrink") {
      wishes.transports |= word == "--transports";
      wishes.congestion |= word == "--congestion";
      wishes.gather |= word == "--gather";
      wishes.repeat |= word == "--repeat" || word == "--shrink";
      wishes.shrink |= word == "--shrink";
      continue;
    }
    ++i;
    if (word == "--count")
      wishes.count = std::strtoul(value, nullptr, 10);
    else if (word == "--input-span")
      wishes.input_span = std::atol(value);
    else if (word == "--output-span")
      wishes.output_span = std::atol(value);
    else if (word == "--overlap")
      wishes.overlap = std::atol(value);
    else if (word == "--algorithm")
      wishes.algorithm = value;
    else if (word == "--transport")
      wishes.transport = value;
  }
  return wishes;
}

std::size_t or_else(long wish, std::size_t count) { return wish < 0 ? count : static_cast<std::size_t>(wish); }

void reduce(tutti::Communicator& comm, const Wishes& wishes) {
  std::vector<float> memory(3 * wishes.count + 8, static_cast<float>(comm.rank() + 1));
  const std::size_t out_at = wishes.overlap < 0 ? wishes.count + 4 : static_cast<std::size_t>(wishes.overlap);
  const std::span all{memory};
  comm.all_reduce(all.first(or_else(wishes.input_span, wishes.count)),
                  all.subspan(out_at, or_else(wishes.output_span, wishes.count)), tutti::sum,
                  {.algorithm = wishes.algorithm});
  std::printf("sum %g\n", wishes.count > 0 ? static_cast<double>(memory[out_at]) : 0.0);
}

void print_congestion() {
  std::set<std::string> algorithms;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    tcp_info state{};
    socklen_t size = sizeof state;
    if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &state, &size) != 0) continue;
    std::array<char, 16> name{};
    socklen_t length = name.size();
    if (state.tcpi_bytes_acked + state.tcpi_bytes_received >= 1'000'000 &&
        ::getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0)
      algorithms.insert(name.data());
  }
  std::printf("congestion");
  for (const std::string& name : algorithms) std::printf(" %s", name.c_str());
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const Wishes wishes = parse(argc, argv);
  try {
    tutti::Communicator comm = tutti::connect({.transport = wishes.transport});
    reduce(comm, wishes);
    if (wishes.transports) {
      std::printf("transports");
      for (int peer = 0; peer < comm.size(); ++peer) std::printf(" %s", comm.transport_to(peer).c_str());
      std::printf("\n");
    }
    if (wishes.congestion) print_congestion();
    if (wishes.gather) {
      std::vector<float> all(comm.rank() == 0 ? wishes.count * static_cast<std::size_t>(comm.size()) : 0);
      comm.gather(std::vector<float>(wishes.count), all, 0);
      return 0;
    }
    std::fflush(stdout);
    std::vector<float> data(wishes.count, 1.0F);
    try {
      while (wishes.repeat) comm.all_reduce(data, tutti::max);
    } catch (const tutti::Error&) {
      if (!wishes.shrink) throw;
      comm = comm.shrink();
      comm.all_reduce(data, tutti::max);
      std::printf("survivors %d\n", comm.size());
    }
    comm.barrier();
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::name_of(error.code()), error.what());
    return 1;
  }
  return 0;
}
