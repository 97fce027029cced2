// Costs of ranks besides their collectives: the time to complete the first one, the core time of a waiting rank, and
// memory. Each figure is measured in ranks of this program, which `tutti run` starts.

#include "cli/bench/footprint.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/base/own_path.h"
#include "cli/base/sizes.h"
#include "cli/measure/median.h"
#include "lib/base/environment.h"
#include "lib/base/most_ranks.h"
#include "rendezvous/launchers.h"
#include "tutti/tutti.h"

namespace tutti::cli::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Micros = std::chrono::duration<double, std::micro>;

constexpr const char* help =
    "Costs of ranks apart from collectives.\n"
    "Usage: tutti bench startup|waiting|memory [-g RANKS,...] [-b BYTES] [--repetitions N]\n\n"
    "  startup   ms from before `tutti run` starts to the end of the first barrier in rank 0, median of N (5)\n"
    "  waiting   share of a core that a rank uses while it waits a second for rank 0 in a barrier; and the time of an\n"
    "            all_reduce of 4 bytes right after that, from the last rank's call on, beside the usual time\n"
    "  memory    resident memory of a rank after an all_reduce of BYTES (64M), without the buffer: all of it, and the\n"
    "            part that is not shared with other processes (MiB, the largest of all ranks)\n\n"
    "  -g RANKS,...      jobs with these numbers of ranks, one after the other (2,8,32)\n";

struct FootprintOptions {
  std::string what;
  std::vector<int> ranks{2, 8, 32};
  std::size_t bytes = std::size_t{64} << 20;
  int repetitions = 5;
  bool is_rank = false;  ///< of a job that another process of this program has started
};

[[noreturn]] void wrong_words(const std::string& why) {
  throw Error{ErrorCode::invalid_argument, fmt::format("bench: {} (tutti bench startup --help)", why)};
}

int whole_number(const std::string& text, int most) {
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || value < 1 || value > most)
    wrong_words(fmt::format("\"{}\" is not a whole number from 1 to {}", text, most));
  return value;
}

constexpr std::string_view of_own_job = "--in-own-job";  // given by this program to the ranks that it starts

FootprintOptions parse(int argc, char** argv) {
  FootprintOptions options{.what = argv[0]};
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (name != "-g" && name != "-b" && name != "--repetitions" && name != of_own_job)
      wrong_words(fmt::format("no option \"{}\"", name));
    if (i + 1 == argc) wrong_words(fmt::format("{} needs a value", name));
    const std::string value = argv[i + 1];
    if (name == of_own_job) options.is_rank = true;
    if (name == "--repetitions") options.repetitions = whole_number(value, 1000);
    if (name == "-b") {
      const auto bytes = parse_bytes(value);
      if (!bytes) wrong_words(fmt::format("\"{}\" is not a size such as 64M", value));
      options.bytes = *bytes;
    }
    if (name != "-g") continue;
    options.ranks.clear();
    std::stringstream list{value};
    for (std::string one; std::getline(list, one, ',');) options.ranks.push_back(whole_number(one, most_ranks_of_job));
    if (options.ranks.empty()) wrong_words("-g needs a number of ranks");
  }
  return options;
}

// ---- In the ranks ------------------------------------------------------------------------------------------------

double core_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Microseconds from the last rank's call until the last rank has its result; the ranks of one host share a clock.
double time_all_reduce(Communicator& comm) {
  float data = 1;
  const auto now = [] { return std::chrono::nanoseconds{Clock::now().time_since_epoch()}.count(); };
  std::array<std::int64_t, 2> stamps{now(), 0};
  comm.all_reduce(std::span{&data, 1}, sum);
  stamps[1] = now();
  comm.all_reduce(stamps, max);
  return static_cast<double>(stamps[1] - stamps[0]) / 1000;
}

std::string waiting(Communicator& comm) {
  std::vector<double> usual;
  for (int i = 0; i < 300; ++i) {
    comm.barrier();
    usual.push_back(time_all_reduce(comm));
  }
  std::vector<double> after;
  double used = 0;
  for (int i = 0; i < 3; ++i) {
    comm.barrier();
    const double before = core_seconds();
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds{1});
    comm.barrier();
    used = std::max(used, comm.rank() == 0 ? 0 : core_seconds() - before);
    after.push_back(time_all_reduce(comm));
  }
  comm.all_reduce(std::span{&used, 1}, max);
  return fmt::format("{:.2f} % of a core; all_reduce of 4 bytes: usual {:.2f} us, after the wait {:.2f} us", 100 * used,
                     measure::median(usual), measure::median(after));
}

/// A field of /proc/self/smaps_rollup, in MiB.
double mapped(const std::string& wanted) {
  std::ifstream file{"/proc/self/smaps_rollup"};
  double total = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(wanted)) continue;
    total += std::atof(line.c_str() + line.find(':') + 1) / 1024;
  }
  return total;
}

std::string memory(Communicator& comm, std::size_t bytes) {
  std::vector<float> data(bytes / sizeof(float), 1.0F);
  const double buffer = static_cast<double>(data.size() * sizeof(float)) / (1 << 20);
  for (int i = 0; i < 3; ++i) comm.all_reduce(data, max);
  std::vector<double> figures{mapped("Rss:") - buffer, mapped("Private_") - buffer};
  comm.all_reduce(figures, max);
  return fmt::format("{:.1f} MiB resident beyond the buffer, {:.1f} MiB of it private", figures[0], figures[1]);
}

int run_rank(const FootprintOptions& options) {
  auto comm = connect();
  std::string line;
  if (options.what == "startup") {
    comm.barrier();
    line = fmt::format("{}", std::chrono::nanoseconds{Clock::now().time_since_epoch()}.count());
  } else {
    line = options.what == "waiting" ? waiting(comm) : memory(comm, options.bytes);
  }
  if (comm.rank() == 0) fmt::print("{}\n", line);
  return exit_success;
}

// ---- What starts them --------------------------------------------------------------------------------------------

/// The first line of the ranks' output.
std::string line_of_job(const FootprintOptions& options, int ranks) {
  const std::string quoted = own_path();
  const std::string command = fmt::format("exec '{0}' run -n {1} --label never '{0}' bench {2} -b {3} {4} 1", quoted,
                                          ranks, options.what, options.bytes, of_own_job);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> job{::popen(command.c_str(), "re"), ::pclose};
  char line[256] = "";
  if (!job || std::fgets(line, sizeof line, job.get()) == nullptr)
    throw Error{ErrorCode::system, fmt::format("bench: a job of {} ranks did not report its result", ranks)};
  return line;
}

void start_up(const FootprintOptions& options, int ranks) {
  std::vector<double> times;
  for (int i = 0; i < options.repetitions; ++i) {
    const auto begin = Clock::now().time_since_epoch();
    const std::chrono::nanoseconds end{std::atoll(line_of_job(options, ranks).c_str())};
    times.push_back(Micros{end - begin}.count() / 1000);
  }
  std::sort(times.begin(), times.end());
  fmt::print("startup, {} ranks: {:.1f} ms to the first finished barrier ({:.1f} to {:.1f}, {} starts)\n", ranks,
             measure::median(times), times.front(), times.back(), times.size());
}

}  // namespace

bool is_footprint(std::string_view word) { return word == "startup" || word == "waiting" || word == "memory"; }

int footprint_main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view{argv[i]} != "-h" && std::string_view{argv[i]} != "--help") continue;
    print_text(help);
    return exit_success;
  }
  const FootprintOptions options = parse(argc, argv);
  if (options.is_rank) return run_rank(options);
  const rendezvous::Launch launch = rendezvous::find_launch({}, variable, rendezvous::MeetFor::nothing);
  if (launch.size > 1)
    throw Error{ErrorCode::unsupported, fmt::format("bench: {} starts ranks itself; run it without a launcher ({})",
                                                    options.what, launch.source)};
  for (const int ranks : options.ranks) {
    if (options.what == "startup") {
      start_up(options, ranks);
    } else {
      fmt::print("{}, {} ranks: {}", options.what, ranks, line_of_job(options, ranks));
    }
    flush_output();
  }
  return exit_success;
}

}  // namespace tutti::cli::bench
