// Children of fork() touch what they inherited: each call is an error, none hangs, and the parent is not disturbed.
//
//   fork          calls of every kind, and destruction
//   fork busy     children of a process whose other threads are in the middle of something

#include <fmt/core.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using tutti::Communicator;
using tutti::Work;

std::optional<Communicator> kept_by_the_program;  // destroyed by exit()

/// 0 when all is as it should be; else says what is not.
class Findings {
 public:
  void refused(const char* what, const std::function<void()>& call, std::string_view words = "fork()") {
    try {
      call();
      note(what, "was not refused");
    } catch (const tutti::Error& error) {
      const std::string_view text = error.what();
      if (error.code() != tutti::ErrorCode::invalid_argument || text.find(words) == std::string_view::npos)
        note(what, text);
    }
  }
  void check(const char* what, bool holds) {
    if (!holds) note(what, "does not hold");
  }
  int code() const { return count_ == 0 ? 0 : 1; }

 private:
  void note(const char* what, std::string_view why) {
    fmt::print(stderr, "child: {}: {}\n", what, why);
    ++count_;
  }
  int count_ = 0;
};

[[noreturn]] void be_a_child(Communicator& comm, Work& pending, Work& finished) {
  Findings findings;
  std::vector<int> data(1000, 1);
  findings.check("rank and size", comm.rank() < comm.size());
  findings.refused(
      "barrier", [&] { comm.barrier(); }, "or connect anew here");
  findings.refused("all_reduce", [&] { comm.all_reduce(data, tutti::sum); });
  findings.refused("all_reduce, started", [&] { (void)comm.async().all_reduce(data, tutti::sum); });
  findings.refused("send", [&] { comm.send(data, 0); });
  findings.refused("isend", [&] { (void)comm.isend(data, 0); });
  findings.refused("recv", [&] { comm.recv(data, 0); });
  findings.refused("irecv", [&] { (void)comm.irecv(data, 0); });
  findings.refused("split", [&] { (void)comm.split(0); });
  findings.refused("probe", [&] { (void)comm.probe(0); });
  findings.refused("iprobe", [&] { (void)comm.iprobe(0); });
  findings.refused("sendrecv", [&] { (void)comm.sendrecv(data, 0, data, 0); });
  findings.refused("subgroup", [&] { (void)comm.subgroup({comm.rank()}); });
  findings.refused("abort", [&] { comm.abort("a child says so"); });
  findings.refused("shrink", [&] { (void)comm.shrink(1s); });
  findings.refused("wait", [&] { pending.wait(); });
  findings.refused("wait_for", [&] { pending.wait_for(1s); });
  findings.refused("wait_any", [&] { tutti::wait_any(std::span{&pending, 1}); });
  findings.refused("wait_any of what was done", [&] { tutti::wait_any(std::span{&finished, 1}); });
  findings.refused("wait_all", [&] { tutti::wait_all(std::span{&pending, 1}); });
  findings.check("a loop over done() ends", pending.done());
  findings.check("error() says why", pending.error() != nullptr);
  findings.check("what was done is done", finished.done() && finished.error() == nullptr);
  int calls = 0;
  pending.then([&](const tutti::Error* error) { calls += error != nullptr ? 1 : 100; });
  finished.then([&](const tutti::Error* error) { calls += error == nullptr ? 1 : 100; });
  findings.check("continuations run", calls == 2);
  {
    const Communicator gone = std::move(comm);
    const Work dropped = std::move(pending);
  }
  std::exit(findings.code());
}

bool ended_well(pid_t child) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      fmt::print(stderr, "child {} hangs\n", child);
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(1ms);
  }
  return status == 0;
}

int fork_once() {
  Communicator comm = tutti::connect();
  kept_by_the_program.emplace(comm.split(0));
  std::vector<int> data(100'000, 1);
  std::vector<int> message(10);
  const int next = (comm.rank() + 1) % comm.size();
  Work pending = comm.irecv(message, tutti::any_source);
  Work finished = comm.async().all_reduce(data, tutti::max);
  finished.wait();
  const pid_t child = ::fork();
  if (child == 0) be_a_child(comm, pending, finished);
  const bool good = child > 0 && ended_well(child);

  comm.barrier();  // before any message: it would end what the others' children must find pending
  comm.send(std::vector<int>(10, comm.rank()), next);
  pending.wait();
  data.assign(data.size(), 1);
  kept_by_the_program->all_reduce(data, tutti::sum);
  comm.barrier();
  return good && data.back() == comm.size() && message[9] != comm.rank() ? 0 : 1;
}

int fork_while_busy() {
  Communicator comm = tutti::connect();
  Communicator other = comm.split(0);
  std::atomic<bool> over{false};
  std::thread caller{[&] {
    std::vector<int> data(20'000, 1);
    while (true) {
      std::vector<int> stop{over ? 1 : 0};
      other.all_reduce(stop, tutti::min);  // all ranks leave together
      if (stop[0] == 1) return;
      other.all_reduce(data, tutti::max);
    }
  }};
  bool good = true;
  for (int round = 0; round < 20 && good; ++round) {
    std::vector<int> data(5000, 1);
    Work pending = comm.async().all_reduce(data, tutti::max);  // with a helper thread
    const pid_t child = ::fork();
    if (child == 0) {
      Findings findings;
      findings.refused("all_reduce", [&] { comm.all_reduce(data, tutti::sum); });
      findings.refused("wait", [&] {
        pending.wait();
        throw tutti::Error{tutti::ErrorCode::invalid_argument, "fork() came after the end"};
      });
      { const Communicator gone = std::move(other); }
      ::_exit(findings.code());
    }
    good = ended_well(child);
    pending.wait();
  }
  over = true;
  caller.join();
  comm.barrier();
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return argc > 1 && std::string_view{argv[1]} == "busy" ? fork_while_busy() : fork_once();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
