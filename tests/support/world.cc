#include "tests/support/world.h"

#include <barrier>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "algorithms/board_program.h"
#include "lib/api/communicator_state.h"
#include "lib/startup/join.h"
#include "transport/memory/inproc.h"

namespace tutti::testing {
namespace {

Communicator join(const WorldOptions& options, int rank, const std::shared_ptr<Store>& store,
                  const std::shared_ptr<transport::InprocHub>& hub) {
  auto context = std::make_shared<detail::Context>();
  context->timeout = options.timeout;
  context->deterministic = options.deterministic;
  context->checksum = options.checksum;
  context->default_algorithms = options.algorithms;
  context->tuning = {&algorithms::TuningTable::builtin(), [](const auto*) {}};
  if (!options.tuning.empty())
    context->tuning =
        std::make_shared<const algorithms::TuningTable>(algorithms::TuningTable::parse(options.tuning, "the test's"));
  if (!options.plan.empty())
    context->given = std::make_shared<const algorithms::GivenPlans>(algorithms::read_plans(options.plan, "the test's"));
  context->injector = detail::Injector::make(detail::parse_faults(options.inject, options.ranks), rank);
  std::string trouble;
  context->black_box = black_box::Box::open({rank, options.ranks, "here", "test"}, trouble);
  context->recorder = trace::Recorder::open({rank, options.ranks, "here"}, algorithms::BoardReaders{}, trouble);
  context->kernels = &compute::choose_table(options.isa);
  context->copy_policy = options.copy_policy;
  context->copy_policy.plain = context->kernels->copy;
  if (!context->copy_policy.streaming) context->copy_policy.streaming = context->kernels->copy_streaming;
  detail::join_ranks(
      *context, {.rank = rank,
                 .size = options.ranks,
                 .store = store,
                 .shm = options.kind != Kind::tcp,
                 .tcp = options.kind != Kind::shm,
                 .inproc = options.kind == Kind::inproc ? hub : nullptr,
                 .domain = options.kind == Kind::mixed && rank % 2 == 1 ? "odd" : "even",
                 .topology = options.topology.empty() ? std::nullopt
                                                      : std::optional{Topology::parse(options.topology, "the test's")},
                 .board_limit = options.boards ? ~std::size_t{0} : 0,
                 .inline_messages = options.boards,
                 .deadline = detail::Clock::now() + options.timeout});
  return detail::world(std::move(context));
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::inproc:
      return "inproc";
    case Kind::shm:
      return "shm";
    case Kind::tcp:
      return "tcp";
    case Kind::mixed:
      return "mixed";
  }
  return "?";
}

void run_ranks(const WorldOptions& options, const std::function<void(Communicator&)>& body) {
  const auto store = memory_store();
  const auto hub = std::make_shared<transport::InprocHub>(options.ranks);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(options.ranks));
  std::barrier<> all_ended{options.ranks};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::optional<Communicator> comm;
      try {
        comm.emplace(join(options, rank, store, hub));
        body(*comm);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
      if (options.leave_together) all_ended.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank]) continue;
    try {
      std::rethrow_exception(failures[rank]);
    } catch (const std::exception& failure) {
      throw std::runtime_error("rank " + std::to_string(rank) + ": " + failure.what());
    }
  }
}

std::string error_of(const std::function<void()>& call, ErrorCode* code) {
  try {
    call();
  } catch (const Error& error) {
    if (code) *code = error.code();
    return error.what();
  }
  return "";
}

}  // namespace tutti::testing
