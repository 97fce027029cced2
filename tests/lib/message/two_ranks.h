#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/startup/join.h"
#include "transport/transport.h"

namespace tutti::detail {

/// Two ranks of one process, neither of which does anything unless a test lets it.
struct TwoRanks {
  static constexpr std::uint64_t group_id = 4242;
  static constexpr transport::Channel message_channel = group_id | 1;

  TwoRanks() {
    std::jthread thread{[this] { second = join(1); }};
    first = join(0);
  }

  std::shared_ptr<transport::InprocHub> hub = std::make_shared<transport::InprocHub>(2);
  std::shared_ptr<Store> store = memory_store();
  std::shared_ptr<CommunicatorState> first, second;

 private:
  std::shared_ptr<CommunicatorState> join(int rank) const {
    auto context = std::make_shared<Context>();
    context->tuning = {&algorithms::TuningTable::builtin(), [](const auto*) {}};
    context->kernels = &compute::choose_table("");
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    join_ranks(*context, {.rank = rank, .size = 2, .store = store, .inproc = hub, .deadline = deadline});
    return std::make_shared<CommunicatorState>(context, group_id, std::vector<int>{0, 1});
  }
};

}  // namespace tutti::detail
