// One rank of a case of the fault matrix, in a process of its own.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "lib/communicator_state.h"
#include "lib/inject.h"
#include "lib/mesh.h"
#include "tests/failure/fault_matrix.h"
#include "tests/matrix/cells.h"

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
  context->stores = {.streaming = context->kernels->copy_streaming};
  context->injector = detail::Injector::make(detail::parse_faults(fault.injection(), fault.ranks), rank);
  const bool mixed = fault.transport == "mixed";
  detail::join_mesh(*context, {.rank = rank,
                               .size = fault.ranks,
                               .store = prefix_store(std::to_string(number), tcp_store("127.0.0.1", store_port, 30s)),
                               .shm = fault.transport != "tcp",
                               .tcp = fault.transport != "shm",
                               .domain = mixed && rank % 2 == 1 ? "odd" : "even",
                               .deadline = detail::Clock::now() + 30s});
  context->store.reset();
  return detail::world(std::move(context));
}

/// Throws Error, sooner or later, or the fault ends this process.
void call_until_it_fails(const FaultCase& fault, Communicator& comm, RankReport& report) {
  Cells<float> cells{comm};
  const Cell cell{.collective = fault.entry->collective, .algorithm = fault.algorithm, .count = 1000};
  const auto call = [&](const Cell& next) {
    report.entered = now();
    const std::string wrong = cells.run(next);
    if (!wrong.empty()) throw Error{ErrorCode::system, "wrong data: " + wrong};
  };
  call(cell);
  call(cell);
  for (int i = 0; i < 3; ++i) call({.collective = Collective::barrier, .algorithm = "dissemination"});
}

}  // namespace

std::chrono::milliseconds call_timeout(std::string_view fault) { return fault == "stop" ? 1s : 15s; }

void run_rank(const FaultCase& fault, int rank, std::uint16_t store_port, int number, RankReport& report) {
  report.descriptors_before = open_descriptors();
  try {
    Communicator comm = join(fault, rank, store_port, number);
    try {
      call_until_it_fails(fault, comm, report);
    } catch (const Error& error) {
      report.failed = now();
      report.code = static_cast<int>(error.code());
      report.culprit = error.rank();
      std::snprintf(report.text.data(), report.text.size(), "%s", error.what());
    }
  } catch (const Error& error) {
    std::snprintf(report.text.data(), report.text.size(), "set-up: %s", error.what());
  } catch (const std::exception&) {
    ::_exit(3);  // the injected exception, on its way through the communicator
  }
  report.descriptors_after = open_descriptors();
  report.finished = 1;
  ::_exit(0);
}

}  // namespace tutti::testing
