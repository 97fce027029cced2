// Ways for a rank to come to an end. Rank 1 goes the way named; the others call all_reduce until that fails, print
// "lost RANK" and end well. With a second word, "all", every rank goes that way.
//
//   teardown WAY [all]

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using tutti::Communicator;
using tutti::Work;

// Destroyed by the end of the program, after `world`, which they serve.
std::vector<float> large(1 << 20, 1.0F);
std::vector<float> hopes(1000);
std::optional<Communicator> world;
std::vector<Work> in_flight;

/// Something under way that moves, and something that never will.
void start_work(Communicator& comm) {
  in_flight.push_back(comm.async().all_reduce(large, tutti::max));
  in_flight.push_back(comm.irecv(hopes, comm.rank(), {.tag = 77}));
}

/// The same calls as the one who will be missing made, and more of them.
int outlive(Communicator& comm) {
  try {
    for (;;) comm.all_reduce(large, tutti::max);
  } catch (const tutti::Error& error) {
    fmt::print("lost {} {}\n", error.rank(), name_of(error.code()));
    fmt::print(stderr, "{}\n", error.what());
    std::fflush(stdout);
  }
  return 0;
}

void destroy() { world.reset(); }

void destroy_with_work() {
  start_work(*world);
  world.reset();
  for (const Work& work : in_flight)
    if (!work.done()) throw std::logic_error("work of a communicator that is gone is not done");
  try {
    in_flight.back().wait();
    throw std::logic_error("a receive without a send succeeded");
  } catch (const tutti::Error& error) {
    if (error.code() != tutti::ErrorCode::aborted) throw;
  }
}

void exit_with_work() {
  start_work(*world);
  std::exit(0);
}

void exit_while_a_thread_is_in_a_call() {
  std::promise<void> begun;
  std::thread{[&begun, work = world->irecv(hopes, world->rank(), {.tag = 78})]() mutable {
    begun.set_value();
    try {
      work.wait();
    } catch (const tutti::Error&) {
      // The program is ending.
    }
  }}.detach();
  begun.get_future().wait();
  std::exit(0);
}

void quick_exit_with_work() {
  start_work(*world);
  std::quick_exit(0);
}

void naked_exit_with_work() {
  start_work(*world);
  ::_exit(0);
}

void throw_through() {
  try {
    Communicator comm = std::move(*world);
    world.reset();
    start_work(comm);
    throw std::runtime_error("of the program");
  } catch (const std::runtime_error&) {
    // The communicator is gone by now.
  }
}

void return_with_work() { start_work(*world); }

void keep_in_a_local_static() {
  static Communicator comm = std::move(*world);
  world.reset();
  start_work(comm);
}

/// A sub-group outlives its parent, a Work both.
void destroy_parent_first() {
  std::optional<Communicator> part = world->subgroup({world->rank()});
  in_flight.push_back(part->irecv(hopes, 0));
  world.reset();
  std::vector<int> data{1};
  part->all_reduce(data, tutti::sum);
  part.reset();
  if (!in_flight.back().done()) throw std::logic_error("work of a communicator that is gone is not done");
}

/// The descriptors of a program that this process starts, one a line.
std::string inherited_by_programs() {
  FILE* const list = ::popen("ls /proc/self/fd", "re");
  std::string names;
  for (int c = 0; list != nullptr && (c = std::fgetc(list)) != EOF;) names += static_cast<char>(c);
  if (list == nullptr || ::pclose(list) != 0) throw std::logic_error("cannot list descriptors");
  return names;
}

std::ptrdiff_t descriptors_here() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, std::filesystem::directory_iterator{});
}

std::string inherited_before;  // connect()

void start_a_program() {
  start_work(*world);
  const auto count = [](const std::string& lines) { return std::count(lines.begin(), lines.end(), '\n'); };
  if (descriptors_here() < count(inherited_before) + 4) throw std::logic_error("where are this rank's connections?");
  // Fewer are well: what a launcher handed to this rank alone.
  if (count(inherited_by_programs()) > count(inherited_before))
    throw std::logic_error("a program that was started inherited " + inherited_by_programs());
}

struct Way {
  const char* name;
  void (*go)();
};

constexpr Way ways[] = {
    {"destroy", destroy},
    {"destroy-with-work", destroy_with_work},
    {"destroy-parent-first", destroy_parent_first},
    {"exit", exit_with_work},
    {"exit-while-in-a-call", exit_while_a_thread_is_in_a_call},
    {"quick-exit", quick_exit_with_work},
    {"_exit", naked_exit_with_work},
    {"throw", throw_through},
    {"return", return_with_work},
    {"return-openssl", return_with_work},
    {"local-static", keep_in_a_local_static},
    {"exec", start_a_program},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const bool all = argc > 2;
  const auto* const way =
      std::find_if(std::begin(ways), std::end(ways), [&](const Way& one) { return one.name == name; });
  if (way == std::end(ways)) return 2;
  try {
    if (name == "exec") inherited_before = inherited_by_programs();
    // A program that uses libcrypto itself: then exit() takes it down before our static objects go.
    if (name == "return-openssl") ::OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, nullptr);
    world.emplace(tutti::connect());
    if (!all && world->rank() != 1) return outlive(*world);
    try {
      for (int round = 0; round < 3; ++round) world->all_reduce(large, tutti::max);
    } catch (const tutti::Error&) {
      if (!all) throw;  // somebody was quicker
    }
    way->go();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
