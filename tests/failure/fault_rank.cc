// One rank of a case of the fault matrix, in a process of its own.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "lib/api/communicator_state.h"
#include "lib/failure/inject.h"
#include "lib/startup/join.h"
#include "tests/failure/fault_matrix.h"
#include "tests/matrix/cells.h"
#include "tests/support/sample.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) ++count;
  return count;
}

Communicator join(const FaultCase& fault, int rank, std::uint16_t store_port, int number) {
  auto context = std::make_shared<detail::Context>();
  context->timeout = call_timeout(fault.fault);
  context->tuning = {&algorithms::TuningTable::builtin(), [](const auto*) {}};
  context->kernels = &compute::choose_table("");
  context->copy_policy = {.plain = context->kernels->copy, .streaming = context->kernels->copy_streaming};
  context->injector = detail::Injector::make(detail::parse_faults(fault.injection(), fault.ranks), rank);
  const bool mixed = fault.transport == "mixed";
  detail::join_ranks(*context, {.rank = rank,
                                .size = fault.ranks,
                                .store = prefix_store(std::to_string(number), tcp_store("127.0.0.1", store_port, 30s)),
                                .shm = fault.transport != "tcp",
                                .tcp = fault.transport != "shm",
                                .domain = mixed && rank % 2 == 1 ? "odd" : "even",
                                .deadline = detail::Clock::now() + 30s});
  context->store.reset();
  return detail::world(std::move(context));
}

void call(Communicator& comm, const Cell& cell, RankReport& report) {
  Cells<float> cells{comm};
  report.entered = now();
  const std::string wrong = cells.run(cell);
  if (!wrong.empty()) throw Error{ErrorCode::system, "wrong data: " + wrong};
}

/// Throws Error, sooner or later, or the fault ends this process.
void call_until_it_fails(const Cell& cell, Communicator& comm, RankReport& report) {
  call(comm, cell, report);
  for (int i = 0; i < 3; ++i) call(comm, {.collective = Collective::barrier, .algorithm = "dissemination"}, report);
}

void shrink(const FaultCase& fault, Communicator& comm, RankReport& report) {
  Communicator survivors = comm.shrink();
  survivors.barrier();
  const bool all_local = survivors.local_rank() == survivors.rank() && survivors.local_size() == survivors.size();
  if (fault.transport != "mixed" && !all_local) throw Error{ErrorCode::system, "local ranks are not the survivors'"};
  report.shrunk = now();
  report.survivors = survivors.size();
}

/// Without it a victim could go while the leaver still needs it.
void wait_until_gone(const RankReport& leaver) {
  const auto limit = std::chrono::steady_clock::now() + 10s;
  while (leaver.finished == 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
}

/// The call before the fault, the one with it, and what comes of that.
void live(const FaultCase& fault, Communicator world, int rank, CaseReport& reports) {
  RankReport& report = reports.ranks[static_cast<std::size_t>(rank)];
  const Cell cell{.collective = fault.entry->collective, .algorithm = fault.algorithm, .count = 1000};
  const std::vector<int> members = fault.members();
  std::optional<Communicator> part;
  Communicator* comm = &world;
  try {
    call(world, cell, report);
    if (rank == fault.leaver) return;
    if (fault.leaver >= 0) {
      if (fault.is_victim(rank)) wait_until_gone(reports.ranks[static_cast<std::size_t>(fault.leaver)]);
      comm = &part.emplace(world.subgroup(members));
      part->barrier();  // nobody is in a call of the world any more
    }
    call_until_it_fails(cell, *comm, report);
  } catch (const Error& error) {
    if (fault.is_victim(rank) && fault.second >= 0) ::kill(::getpid(), SIGKILL);  // the other was a moment earlier
    report.failed = now();
    report.code = static_cast<int>(error.code());
    report.culprit = error.rank() < 0 ? -1 : members[static_cast<std::size_t>(error.rank())];
    std::snprintf(report.text.data(), report.text.size(), "%s", error.what());
    if (fault.shrinks()) shrink(fault, *comm, report);
  }
}

}  // namespace

std::chrono::milliseconds call_timeout(std::string_view fault) {
  if (fault != "stop") return 15s;
  return sanitized ? 5s : 1s;  // also for the calls before the fault
}

void run_rank(const FaultCase& fault, int rank, std::uint16_t store_port, int number, CaseReport& reports) {
  RankReport& report = reports.ranks[static_cast<std::size_t>(rank)];
  report.descriptors_before = open_descriptors();
  try {
    live(fault, join(fault, rank, store_port, number), rank, reports);
  } catch (const Error& error) {
    std::snprintf(report.text.data(), report.text.size(), "set-up or shrink: %s", error.what());
  } catch (const std::exception&) {
    ::_exit(3);  // the injected exception, on its way through the communicator
  }
  report.descriptors_after = open_descriptors();
  report.finished = 1;
  ::_exit(0);
}

}  // namespace tutti::testing
