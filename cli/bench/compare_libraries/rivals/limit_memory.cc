// Copies, reductions and hand-overs at the speed of the machine.

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cli/bench/compare_libraries/rivals/limit.h"
#include "cli/measure/measure.h"
#include "cli/measure/median.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#define FOR_EVERY_VECTOR_LENGTH __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FOR_EVERY_VECTOR_LENGTH
#endif

namespace tutti::cli::measure {
namespace {

constexpr double measured_us = 20'000;

struct Buffer {
  explicit Buffer(std::size_t bytes) : memory(static_cast<float*>(std::aligned_alloc(4096, bytes)), &std::free) {
    if (!memory) ::_exit(1);
    std::memset(memory.get(), 0, bytes);
  }
  std::unique_ptr<float[], decltype(&std::free)> memory;
};

std::size_t bytes_at(Level level) {
  if (level == Level::l2) return std::size_t{256} << 10;
  if (level == Level::l3) return std::size_t{4} << 20;
  return std::size_t{64} << 20;
}

/// Written in vectors, since compilers make none of a loop at each level of optimization: the limit must not depend on
/// how tutti was built. A Buffer holds whole ones.
using Vector __attribute__((vector_size(64), may_alias)) = float;

FOR_EVERY_VECTOR_LENGTH void add_to(float* into, const float* from, std::size_t count) {
  auto* const sums = reinterpret_cast<Vector*>(into);
  const auto* const added = reinterpret_cast<const Vector*>(from);
  for (std::size_t i = 0; i < count * sizeof(float) / sizeof(Vector); ++i) sums[i] += added[i];
}

void copy(float* into, const float* from, std::size_t count) { std::memcpy(into, from, count * sizeof(float)); }

/// A copy with stores past the caches.
void stream(float* into, const float* from, std::size_t count) {
#if defined(__x86_64__)
  for (std::size_t i = 0; i < count; i += 4) _mm_stream_ps(into + i, _mm_load_ps(from + i));
  _mm_sfence();
#else
  copy(into, from, count);
#endif
}

double rate(void (*work)(float*, const float*, std::size_t), Level level, int processes) {
  const std::size_t bytes = bytes_at(level);
  const std::vector<double> rates = in_processes(processes, [&](RankSync& sync) {
    const Buffer into{bytes};
    const Buffer from{bytes};
    work(into.memory.get(), from.memory.get(), bytes / sizeof(float));
    sync.gather();
    // Many short measurements and their median, so that interruptions affect only a few.
    const std::size_t repeated = std::max<std::size_t>(1, (std::size_t{1} << 20) / bytes);
    const double end = microseconds_now() + measured_us;
    std::vector<double> rates_seen;
    while (rates_seen.size() < 3 || microseconds_now() < end) {
      const double begin = microseconds_now();
      for (std::size_t i = 0; i < repeated; ++i) {
        work(into.memory.get(), from.memory.get(), bytes / sizeof(float));
        asm volatile("" ::"r"(into.memory.get()) : "memory");
      }
      rates_seen.push_back(static_cast<double>(bytes * repeated) / (microseconds_now() - begin) * 1e-3);
    }
    return median(rates_seen);
  });
  double sum = 0;
  for (const double one : rates) sum += one;
  return sum;
}

}  // namespace

std::vector<double> in_processes(int count, const std::function<double(RankSync&)>& body) {
  Shared* const shared = map_shared_with_children();
  if (shared == nullptr) return std::vector<double>(static_cast<std::size_t>(count));
  const std::vector<int> cores = first_two_cores();
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(20);
      if (!cores.empty()) stay_on(cores[static_cast<std::size_t>(rank) % cores.size()]);
      RankSync sync{shared, rank, count, 1, static_cast<int>(cores.size())};
      const double value = body(sync);
      shared->value[rank] = value;
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::vector<double> values;
  for (int rank = 0; rank < count; ++rank) {
    int status = 0;
    const bool good = ::waitpid(children[static_cast<std::size_t>(rank)], &status, 0) > 0 && status == 0;
    values.push_back(good ? shared->value[rank] : 0);
  }
  ::munmap(shared, sizeof *shared);
  return values;
}

Level level_of(std::size_t bytes) {
  // Virtual machines report the L3 cache of all sockets together; a core uses at most this much of it.
  constexpr long most_l3 = 32 << 20;
  const auto size_of = [](int name, long usual) {
    const long found = ::sysconf(name);
    return found > 0 ? found : usual;
  };
  if (bytes / 2 <= static_cast<std::size_t>(size_of(_SC_LEVEL2_CACHE_SIZE, 1 << 20))) return Level::l2;
  const long l3 = std::min(size_of(_SC_LEVEL3_CACHE_SIZE, most_l3), most_l3);
  return bytes <= static_cast<std::size_t>(l3) ? Level::l3 : Level::memory;
}

double copy_rate(Level level, int processes) {
  const double plain = rate(copy, level, processes);
  return level == Level::memory ? std::max(plain, rate(stream, level, processes)) : plain;
}

double reduce_rate(Level level, int processes) { return rate(add_to, level, processes); }

double cache_line_ns(std::span<const int> cores) {
  return in_processes(2, [cores](RankSync& sync) { return sync.probe(cores); }).front();
}

Floor barrier_floor(int ranks) {
  Floor floor;
  const auto part = [&](double Times::*which) {
    return in_processes(ranks,
                        [which](RankSync& sync) {
                          const Times times = measure(sync, {30, 100, 5}, [&] { sync.meet(); });
                          return times.*which;
                        })
        .front();
  };
  floor.single = part(&Times::single);
  floor.loop = part(&Times::loop);
  return floor;
}

}  // namespace tutti::cli::measure
