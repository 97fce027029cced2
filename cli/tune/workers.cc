// The directing side: forks the ranks, writes orders into shared memory, and waits for a byte that reports completion.

#include "cli/tune/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "cli/base/output.h"
#include "cli/base/process_limits.h"
#include "cli/base/stop_request.h"
#include "cli/measure/median.h"
#include "cli/run/process.h"
#include "cli/run/ranks.h"
#include "tutti/error.h"

namespace tutti::cli::tune {

namespace {

constexpr double longest_order_us = 60e6;
constexpr double telling_us = 100e3;
constexpr double leaving_us = 5e6;

[[noreturn]] void refused(const WorkerOptions& options, const char* what) {
  throw Error{ErrorCode::system, fmt::format("{}: {}: {}", options.who, what, std::strerror(errno))};
}

std::string make_folder(const WorkerOptions& options) {
  const char* const place = std::getenv("TMPDIR");
  std::string path = std::string{place != nullptr && *place != '\0' ? place : "/tmp"} + "/tutti-tune-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    throw Error{ErrorCode::system, fmt::format("{}: no folder for the ranks to meet in, {}: {}; set TMPDIR",
                                               options.who, path, std::strerror(errno))};
  return path;
}

struct Pipe {
  Descriptor read, write;
};

/// Sockets rather than pipes: writing to a dead worker must return EPIPE, not raise SIGPIPE.
Pipe make_pipe(const WorkerOptions& options) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) refused(options, "socketpair");
  return {Descriptor{ends[0]}, Descriptor{ends[1]}};
}

void enter_network(std::string_view who, const std::string& name) {
  const Descriptor place{::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC)};
  if (place.get() >= 0 && ::setns(place.get(), CLONE_NEWNET) == 0) return;
  say_error(fmt::format("tutti: {}: cannot enter the network namespace {}: {} (ip netns list)\n", who, name,
                        std::strerror(errno)));
  std::_Exit(1);
}

void become_rank(pid_t director, int rank, const WorkerOptions& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != director) std::_Exit(1);
  if (!options.namespaces.empty()) enter_network(options.who, options.namespaces[static_cast<std::size_t>(rank)]);
  stop_listening();
  cpu_set_t cores;
  if (!options.bind_to_core || ::sched_getaffinity(0, sizeof cores, &cores) != 0) return;
  cores = share_of_cores(cores, rank, options.ranks);
  ::sched_setaffinity(0, sizeof cores, &cores);
}

}  // namespace

Workers::Workers(const WorkerOptions& options) : options_(options) {
  require_room_for(options.who, options.ranks, {.descriptors = 0, .processes = 1 + threads_of_rank});
  void* const memory =
      ::mmap(nullptr, sizeof(WorkerMemory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);  // all zero
  if (memory == MAP_FAILED) refused(options, "shared memory");
  memory_ = static_cast<WorkerMemory*>(memory);
  try {
    folder_ = make_folder(options);
    Pipe orders = make_pipe(options), answers = make_pipe(options);
    orders_ = std::move(orders.write);
    answers_ = std::move(answers.read);
    const pid_t director = ::getpid();
    std::fflush(nullptr);
    for (int rank = 0; rank < options.ranks; ++rank) {
      const pid_t child = ::fork();
      if (child < 0) refused(options, "fork");
      if (child == 0) {
        orders_.reset();
        become_rank(director, rank, options);
        std::_Exit(live_as_rank(*memory_, rank, options, "file://" + folder_ + "/store", orders.read.get(),
                                answers.write.get()));
      }
      ranks_.push_back(child);
    }
    answers.write.reset();  // no copy of the ranks' end is kept here, so that its end is noticed
    wait_for_answer();
  } catch (...) {
    end();
    throw;
  }
}

Workers::~Workers() {
  try {
    if (!owed_) dismiss();
  } catch (const Error&) {
    // the destructor ends them
  }
  end();
}

void Workers::dismiss() {
  Order order;
  order.kind = Order::Kind::leave;
  do_order(order);
  const double begin = measure::microseconds_now();
  for (pid_t& rank : ranks_)
    while (rank != 0 && measure::microseconds_now() - begin < leaving_us) {
      if (status_if_ended(rank)) rank = 0;
      if (rank != 0) ::usleep(1000);
    }
}

void Workers::end() noexcept {
  for (const pid_t rank : ranks_)
    if (rank > 0) ::kill(rank, SIGKILL);
  for (const pid_t rank : ranks_)
    if (rank > 0) ::waitpid(rank, nullptr, 0);
  ranks_.clear();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  ::munmap(memory_, sizeof(WorkerMemory));
}

void Workers::fail(int status) {
  const std::string where = fmt::format("{} ranks over {}", options_.ranks, options_.transport);
  const double begin = measure::microseconds_now();
  while (memory_->in_trouble.load() && !memory_->told.load() && measure::microseconds_now() - begin < telling_us)
    ::sched_yield();  // the first rank to fail may not be the first to end
  if (memory_->told.load())
    throw Error{ErrorCode::system, fmt::format("{}: {}: {}", options_.who, where, memory_->trouble)};
  throw Error{ErrorCode::system, fmt::format("{}: {}: a rank was ended by {} {}", options_.who, where,
                                             WIFSIGNALED(status) ? "signal" : "code",
                                             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status))};
}

void Workers::wait_for_answer() {
  owed_ = true;
  const double begin = measure::microseconds_now();
  for (;;) {
    if (told_to_stop) throw Error{ErrorCode::aborted, options_.who + ": stopped; nothing was written"};
    pollfd one{answers_.get(), POLLIN, 0};
    constexpr int patience_ms = 50;
    if (::poll(&one, 1, patience_ms) == 1) {
      char byte = 0;
      if (::read(answers_.get(), &byte, 1) == 1) {
        owed_ = false;
        return;
      }
    }
    for (pid_t& rank : ranks_) {
      const std::optional<int> status = rank == 0 ? std::nullopt : status_if_ended(rank);
      if (!status) continue;
      rank = 0;
      fail(*status);
    }
    if (measure::microseconds_now() - begin > longest_order_us)
      throw Error{ErrorCode::timeout, fmt::format("{}: {} ranks over {} did not finish {} of {} bytes within a minute",
                                                  options_.who, options_.ranks, options_.transport,
                                                  measure::name_of(memory_->order.call), memory_->order.bytes)};
  }
}

void Workers::do_order(const Order& order) {
  memory_->order = order;
  const char byte = 1;
  ::send(orders_.get(), &byte, 1, MSG_NOSIGNAL);  // a dead receiver is noticed below
  wait_for_answer();
}

std::vector<double> Workers::measure(const Order& order) {
  do_order(order);
  const auto slowest = [&](int stamp) {
    double most = 0;
    for (int rank = 0; rank < options_.ranks; ++rank)
      most = std::max(most, memory_->shared.end[rank][stamp] - memory_->shared.begin[rank][stamp]);
    return most;
  };
  std::vector<double> medians;
  int stamp = 0;
  for (int i = 0; i < order.count; ++i) {
    std::vector<double> times;
    const int calls = order.turns[i].calls;
    for (int call = 0; call < (order.loop ? 1 : calls); ++call) times.push_back(slowest(stamp++));
    medians.push_back(order.loop ? times[0] / calls : measure::median(times));
  }
  return medians;
}

std::string Workers::choice(measure::MeasuredCall call, std::size_t bytes) {
  Order order;
  order.kind = Order::Kind::ask_choice;
  order.call = call;
  order.bytes = bytes;
  do_order(order);
  return memory_->answer;
}

}  // namespace tutti::cli::tune
