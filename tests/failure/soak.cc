// A rank of the soak: random calls of all kinds, every result checked, until a file appears.
//
//   soak restart|shrink SEED FILE
//
// A failure ends a rank (restart), or it goes on with the survivors (shrink) while these are three or more. What it
// writes, for soak_test.py:
//
//   up RANK PID              has met the others
//   lost RANK WHY            who is named as the culprit (by the rank it had at the start), by each survivor
//   shrunk RANKS MS          the survivors have met again, after so many milliseconds; by the first of them
//   done CALLS CHECKED       calls and bytes of checked results since the last such line; by the first of them
//   wrong WHAT               a result that is not what it should be

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/collective_traits.h"
#include "tests/matrix/cells.h"
#include "tutti/tutti.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int fewest_ranks = 3;
constexpr auto patience = 20s;  // of one call
constexpr std::size_t largest_count = 1 << 16;
constexpr int most_at_once = 5;
constexpr int calls_per_look = 16;  // at the clock and the file

struct WrongResult {
  std::string what;
};

template <class... Values>
void say(const char* format, Values... values) {
  std::printf(format, values...);
  std::fflush(stdout);
}

class Soak {
 public:
  Soak(bool shrinks, std::uint64_t seed, std::string stop_file)
      : shrinks_(shrinks), seed_(seed), stop_file_(std::move(stop_file)), comm_(connect()), me_(comm_.rank()) {
    say("up %d %d\n", me_, static_cast<int>(::getpid()));
  }

  /// The exit code.
  int run() {
    for (;;) {
      try {
        meet();
        while (go_on())
          for (int i = 0; i < calls_per_look; ++i) call();
        return 0;
      } catch (const Error& error) {
        report(error);
      }
      if (!shrinks_) return 1;
      failed_at_ = Clock::now();
      comm_ = comm_.shrink(patience);
      if (comm_.size() < fewest_ranks) return 1;
      first_ranks_.clear();
    }
  }

 private:
  /// All ranks learn the ranks' numbers and agree on the random numbers. Every link is used and every buffer is filled,
  /// so that memory has no reason to grow afterwards.
  void meet() {
    std::vector<int> all(static_cast<std::size_t>(comm_.size()));
    comm_.all_gather(std::vector<int>{me_}, all);
    first_ranks_ = std::move(all);
    std::vector<std::uint64_t> seed{seed_ * 1'000'003 + static_cast<std::uint64_t>(::getpid()) + ++meetings_};
    comm_.broadcast(seed, 0);
    random_.seed(seed[0]);
    if (comm_.rank() == 0 && failed_at_)
      say("shrunk %d %ld\n", comm_.size(),
          static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - *failed_at_).count()));
    failed_at_.reset();
    if (meetings_ == 1) fill_pools();
    Cell largest;
    largest.count = largest_count;
    for (int i = 0; i < collective_count; ++i) {
      largest.collective = static_cast<Collective>(i);
      // In shared memory the data of each root go round a few MiB, which are there from the second time on.
      const int calls = largest.collective == Collective::broadcast ? 8 * comm_.size() : 1;
      for (int call = 0; call < calls; ++call) {
        largest.root = call % comm_.size();
        check(largest, Cells<double>{comm_}.run(largest), sizeof(double));
      }
    }
    for (int distance = 1; distance <= comm_.size(); ++distance) exchange(distance, 0, largest_count);
  }

  /// As many operations at once as there will ever be, of the kind that takes the most memory. It is kept.
  void fill_pools() {
    const std::size_t size = largest_count * static_cast<std::size_t>(comm_.size());
    std::vector<std::vector<double>> data(most_at_once + 1, std::vector<double>(size));
    std::vector<Work> work;
    for (auto& one : data) work.push_back(comm_.async().all_to_all(one, one));
    for (Work& one : work) one.wait();
  }

  void report(const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    if (error.rank() >= 0 && !first_ranks_.empty())
      say("lost %d rank %d: %s\n", first_ranks_[static_cast<std::size_t>(error.rank())], me_, error.what());
  }

  bool go_on() {
    if (comm_.rank() == 0 && Clock::now() - said_ > 1s) {
      say("done %ld %ld\n", calls_, checked_);
      calls_ = checked_ = 0;
      said_ = Clock::now();
    }
    std::vector<std::int32_t> stop{comm_.rank() == 0 && std::filesystem::exists(stop_file_) ? 1 : 0};
    comm_.broadcast(stop, 0);
    return stop[0] == 0;
  }

  // ---- One call, the same on all ranks ----

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  /// Mostly small, sometimes large: about as many of each order of magnitude.
  std::size_t some_count() { return static_cast<std::size_t>(random_() % (largest_count >> below(17))); }

  void call() {
    ++calls_;
    switch (below(8)) {
      case 0:
        return messages();
      case 1:
        return several_at_once();
      case 2:
        return in_a_group();
      default:
        return collective(comm_);
    }
  }

  void collective(Communicator& comm) {
    Cell cell;
    cell.collective = static_cast<Collective>(below(collective_count));
    cell.count = some_count();
    cell.root = below(comm.size());
    cell.in_place = below(2) == 0;
    static constexpr OpKind ops[] = {OpKind::sum, OpKind::max, OpKind::min, OpKind::product};
    cell.op = ops[below(4)];
    cell.variable = detail::traits_of(cell.collective).has_parts() && below(4) == 0;
    if (cell.variable) cell.in_place = false;
    switch (below(4)) {
      case 0:
        return check(cell, Cells<std::uint8_t>{comm}.run(cell), 1);
      case 1:
        return check(cell, Cells<std::int32_t>{comm}.run(cell), 4);
      case 2:
        return check(cell, Cells<f16>{comm}.run(cell), 2);
      default:
        return check(cell, Cells<double>{comm}.run(cell), 8);
    }
  }

  void check(const Cell& cell, const std::string& wrong, std::size_t element) {
    if (!wrong.empty())
      throw WrongResult{std::string(name_of(cell.collective)) + " of " + std::to_string(cell.count) + ": " + wrong};
    checked_ += static_cast<long>(cell.count * element);
  }

  /// Everybody to everybody else at some distance, under some tag, of a size that is announced by nothing.
  void messages() {
    const int distance = 1 + below(comm_.size());
    const int tag = below(1000);
    exchange(distance, tag, 1 + some_count());
  }

  void exchange(int distance, int tag, std::size_t count) {
    const int to = (comm_.rank() + distance) % comm_.size();
    const int from = (comm_.rank() + 2 * comm_.size() - distance) % comm_.size();
    const std::vector<std::int32_t> mine(count, comm_.rank() * 1000 + tag);
    std::vector<std::int32_t> theirs(count + 1, -1);
    Work sent = comm_.isend(mine, to, {.tag = tag, .timeout = patience});
    const MessageStatus status = comm_.recv(theirs, from, {.tag = tag, .timeout = patience});
    sent.wait();
    if (status.count != count || theirs.front() != from * 1000 + tag || theirs[count - 1] != from * 1000 + tag ||
        theirs.back() != -1)
      throw WrongResult{"message of " + std::to_string(count)};
    checked_ += static_cast<long>(4 * count);
  }

  /// Several reductions on their way at a time, ended in another order.
  void several_at_once() {
    const int works = 2 + below(most_at_once - 1);
    const std::size_t count = some_count();
    const std::int32_t base = below(1000);
    std::vector<std::vector<std::int32_t>> data;
    std::vector<Work> work;
    for (int i = 0; i < works; ++i) data.emplace_back(count + static_cast<std::size_t>(i), base * (comm_.rank() + i));
    for (auto& one : data) work.push_back(comm_.async().all_reduce(one, sum, {.timeout = patience}));
    while (!work.empty()) {
      const int next = below(static_cast<int>(work.size()));
      work[static_cast<std::size_t>(next)].wait();
      work.erase(work.begin() + next);
    }
    const int n = comm_.size();
    for (int i = 0; i < works; ++i)
      for (const std::int32_t value : data[static_cast<std::size_t>(i)])
        if (value != base * (n * (n - 1) / 2 + i * n)) throw WrongResult{"one of several all_reduce at once"};
    checked_ += static_cast<long>(4 * count) * works;
  }

  void in_a_group() {
    const int colours = 1 + below(3);
    Communicator part = comm_.split(comm_.rank() % colours);
    // What follows differs between the groups, so each draws from numbers of its own.
    const std::uint64_t next = random_();
    std::mt19937_64 ours{next + static_cast<std::uint64_t>(comm_.rank() % colours)};
    std::swap(random_, ours);
    try {
      for (int i = 0; i < 3; ++i) collective(part);
    } catch (const Error& error) {  // in the ranks of the group
      const int culprit = error.rank() < 0 ? -1 : error.rank() * colours + comm_.rank() % colours;
      throw Error{error.code(), error.what(), culprit, error.operation()};
    }
    std::swap(random_, ours);
  }

  bool shrinks_;
  std::uint64_t seed_;
  std::string stop_file_;
  Communicator comm_;
  int me_;                        // this rank at the start
  std::vector<int> first_ranks_;  // by rank in comm_: the rank at the start
  std::optional<Clock::time_point> failed_at_;
  std::mt19937_64 random_;
  std::uint64_t meetings_ = 0;
  long calls_ = 0;
  long checked_ = 0;
  Clock::time_point said_ = Clock::now();
};

}  // namespace
}  // namespace tutti::testing

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    tutti::testing::Soak soak{std::string_view{argv[1]} == "shrink", std::strtoull(argv[2], nullptr, 10), argv[3]};
    return soak.run();
  } catch (const tutti::testing::WrongResult& wrong) {
    std::printf("wrong %s\n", wrong.what.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
