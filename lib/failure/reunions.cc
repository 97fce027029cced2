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
  awaited_.erase(awaited.report.group);
  return awaited.outcome;
}

std::vector<Report> Reunions::untold(int coordinator) {
  std::vector<Report> reports;
  const std::lock_guard lock{mutex_};
  for (const auto& [group, awaited] : awaited_)
    if (std::exchange(awaited->told, coordinator) != coordinator) reports.push_back(awaited->report);
  return reports;
}

std::optional<Report> Reunions::decided(const ControlMessage& decision) {
  const std::lock_guard lock{mutex_};
  const auto found = awaited_.find(decision.report.group);
  if (found == awaited_.end()) {
    if (decision.number == 0) return {};
    if (late_.size() == most_late) late_.pop_front();
    late_.emplace_back(decision.report.group, Reunion{decision.number, decision.ranks});
    return {};
  }
  const std::shared_ptr<Awaited> awaited = found->second;
  if (decision.number == 0) {
    awaited->missing = decision.ranks;
    return {};
  }
  awaited->outcome = Reunion{decision.number, decision.ranks};
  awaited_.erase(found);  // final: if the coordinator leaves now, the next one must not be asked again
  changed_.notify_all();
  if (awaited->told < 0 || awaited->report.operation == decision.report.operation) return {};
  return awaited->report;
}

}  // namespace tutti::detail
