#include "lib/failure/reunions.h"

#include <algorithm>
#include <utility>

#include "lib/base/wait_hook.h"

namespace tutti::detail {

std::shared_ptr<Reunions::Awaited> Reunions::begin(const Report& report) {
  auto awaited = std::make_shared<Awaited>(Awaited{report, {}, {}});
  const std::lock_guard lock{mutex_};
  awaited->report.operation = ++calls_;
  const auto late = std::ranges::find(late_, report.group, &std::pair<std::uint64_t, Reunion>::first);
  if (late != late_.end()) {
    awaited->outcome = std::move(late->second);
    late_.erase(late);
  } else {
    awaited_[report.group] = awaited;
  }
  return awaited;
}

std::optional<Reunion> Reunions::wait(Awaited& awaited, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock{mutex_};
  while (!changed_.wait_until(lock, next_question(deadline), [&] { return awaited.outcome.has_value(); })) {
    if (awaited.interrupted || std::chrono::steady_clock::now() >= deadline) break;
    lock.unlock();
    const bool interrupted = program_interrupts();
    lock.lock();
    awaited.interrupted = interrupted;
  }
  if (awaited.outcome) return awaited.outcome;
  const auto found = awaited_.find(awaited.report.group);
  if (found != awaited_.end() && found->second.get() == &awaited) awaited_.erase(found);
  withdraw(awaited);
  return std::nullopt;
}

bool Reunions::withdraw(const Awaited& awaited) {
  if (awaited.told < 0) return false;
  withdrawn_.push_back({awaited.told, awaited.report});
  withdrawn_.back().report.overdue = true;
  return true;
}

std::vector<ControlMessage> Reunions::untold(int coordinator) {
  std::vector<ControlMessage> messages;
  const auto tell = [&messages](const Report& call) {
    messages.push_back({.kind = ControlMessage::Kind::reunion, .report = call});
  };
  const std::lock_guard lock{mutex_};
  for (const Withdrawn& call : std::exchange(withdrawn_, {}))
    if (call.told == coordinator) tell(call.report);
  for (const auto& [group, awaited] : awaited_)
    if (std::exchange(awaited->told, coordinator) != coordinator) tell(awaited->report);
  return messages;
}

bool Reunions::decided(const ControlMessage& decision) {
  const std::lock_guard lock{mutex_};
  const auto found = awaited_.find(decision.report.group);
  if (found == awaited_.end()) {
    if (decision.number == 0) return false;
    if (late_.size() == most_late) late_.pop_front();
    late_.emplace_back(decision.report.group, Reunion{decision.number, decision.ranks});
    return false;
  }
  const std::shared_ptr<Awaited> awaited = found->second;
  if (decision.number == 0) {
    awaited->missing = decision.ranks;
    return false;
  }
  awaited->outcome = Reunion{decision.number, decision.ranks};
  awaited_.erase(found);  // final: if the coordinator leaves now, the next one must not be asked again
  changed_.notify_all();
  return awaited->report.operation != decision.report.operation && withdraw(*awaited);
}

}  // namespace tutti::detail
