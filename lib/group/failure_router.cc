#include "lib/group/failure_router.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "lib/engine/engine.h"
#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

/// Nobody waits for an answer that comes later. Much longer than coordinators wait, since their machine may stop as
/// well.
constexpr std::chrono::seconds answer_time{2};
constexpr std::size_t most_remembered = 256;
/// All calls of 90 groups that take long at the same time list them all.
constexpr std::chrono::milliseconds listing_time{50};
constexpr std::size_t most_listed_in_time = 8192;

}  // namespace

FailureRouter::FailureRouter(int rank, std::vector<std::string> names, std::shared_ptr<Engine> engine, Log log)
    : rank_(rank), names_(std::move(names)), engine_(std::move(engine)), log_(std::move(log)) {
  closed_.reserve(most_remembered);
}

FailureRouter::~FailureRouter() = default;

void FailureRouter::stop() noexcept {
  if (detector_) detector_->stop();
  thread_.reset();
  warner_.reset();
}

// ---- Groups ----------------------------------------------------------------------------------------------------

void FailureRouter::attach(Group& group) {
  groups_.emplace(group.id(), &group);
  by_parent_.emplace(std::pair{group.parent(), group.id()}, &group);
  for (const Failure& failure : unclaimed_)
    if (failure.group == group.id()) group.fail(group.translate(failure), Group::Origin::elsewhere);
  std::erase_if(unclaimed_, [&group](const Failure& failure) { return failure.group == group.id(); });
  for (const Failure& failure : losses_)
    if (group.group_rank(failure.culprit) >= 0) group.fail(group.translate(failure), Group::Origin::elsewhere);
  const auto parent = groups_.find(group.parent());
  if (parent != groups_.end() && parent->second->failing())
    group.fail(group.inherited(*parent->second), Group::Origin::elsewhere);
}

void FailureRouter::detach(Group& group) noexcept {
  groups_.erase(group.id());
  by_parent_.erase({group.parent(), group.id()});
  if (closed_.size() == most_remembered) {
    closed_.erase(closed_.begin());
    has_forgotten_ = true;
  }
  closed_.push_back(group.id());
}

void FailureRouter::spread(Group& group, const Error& reason, Group::Origin origin) noexcept {
  for (auto child = by_parent_.lower_bound({group.id(), 0});
       child != by_parent_.end() && child->first.first == group.id(); ++child)
    child->second->fail(child->second->inherited(group), Group::Origin::elsewhere);
  if (!detector_ || origin == Group::Origin::elsewhere) return;
  detector_->tell(failure_of(group, reason));
}

void FailureRouter::fail_later(const Failure& failure) noexcept {
  if (detector_) detector_->tell(failure);
  engine_->post([this, failure] { apply(failure); });
}

Failure FailureRouter::failure_of(const Group& group, const Error& reason) const {
  const int culprit = reason.rank() >= 0 && reason.rank() < group.size() ? group.global_rank(reason.rank()) : -1;
  return {group.id(), reason.code(), culprit, reason.operation(), reason.what()};
}

void FailureRouter::suspect(Group& group, const Error& reason) noexcept {
  Report calls;
  if (reason.code() == ErrorCode::mismatch) {
    calls = reunion_of(group);
    calls.operation = reason.operation();
  }
  detector_->suspect(failure_of(group, reason), calls);
}

void FailureRouter::cut() noexcept {
  if (detector_) detector_->cut();
}

// ---- On the failure detector's thread --------------------------------------------------------------------------

/// A thread begins with its first task, so that a job in which nothing happens has none.
void FailureRouter::leave_to(std::unique_ptr<TaskThread>& thread, std::function<void()> task) noexcept {
  try {
    if (!thread) thread = std::make_unique<TaskThread>();
  } catch (const std::exception&) {
    return task();  // the system refuses a thread now: a failure must be told all the same, late rather than never
  }
  thread->post(std::move(task));
}

void FailureRouter::failed(const Failure& failure) noexcept {
  leave_to(thread_, [this, failure] { engine_->post([this, failure] { apply(failure); }); });
}

void FailureRouter::suspected(const std::string& text) noexcept {
  leave_to(warner_, [this, text] { log_.warn(text); });
}

void FailureRouter::departed(const std::vector<int>& ranks) noexcept {
  leave_to(thread_, [this, ranks] { engine_->post([this, ranks] { engine_->departed(ranks); }); });
}

/// The owner may be in a function of the program's for long, while thousands of communicators are asked about.
void FailureRouter::status(const Report& about, Reply reply) noexcept {
  const auto now = Clock::now();
  {
    const std::lock_guard lock{questions_mutex_};
    while (!questions_.empty() && now - questions_.front().asked_at > answer_time) questions_.pop_front();
    questions_.push_back({about, std::move(reply), now});
    if (questions_.size() > 1) return;  // the owner will answer all of them
  }
  leave_to(thread_, [this] { engine_->post([this] { answer_questions(); }); });
}

// ---- On the owner of the engine --------------------------------------------------------------------------------

void FailureRouter::apply(const Failure& failure) {
  if (failure.group == 0) {
    if (failure.culprit < 0 || std::cmp_greater_equal(failure.culprit, names_.size())) return;  // there is no such rank
    if (std::ranges::count(losses_, failure.culprit, &Failure::culprit) > 0) return;            // it is told again
    losses_.push_back(failure);
    std::vector<Group*> concerned;
    for (const auto& [id, group] : groups_)
      if (failure.culprit == rank_ || group->group_rank(failure.culprit) >= 0) concerned.push_back(group);
    // Sub-groups first: otherwise they would quote the failure of the group that they were made from.
    std::ranges::sort(concerned, std::ranges::greater{}, &Group::index);
    for (Group* const group : concerned) group->fail(group->translate(failure), Group::Origin::elsewhere);
    return;
  }
  const auto found = groups_.find(failure.group);
  if (found != groups_.end()) return found->second->fail(found->second->translate(failure), Group::Origin::elsewhere);
  if (std::ranges::count(closed_, failure.group) > 0) return;
  if (unclaimed_.size() == most_remembered) unclaimed_.erase(unclaimed_.begin());
  unclaimed_.push_back(failure);
}

// ---- Asking and answering --------------------------------------------------------------------------------------

Report FailureRouter::report_of(const Group& group) const {
  return {.group = group.id(), .reporter = rank_, .call = {}, .members = group.members(), .lists_all = false};
}

Report FailureRouter::reunion_of(const Group& group) const {
  Report report = report_of(group);
  if (has_forgotten_) return report;  // others may still be in the last call of any group
  report.groups = closed_;
  for (const auto& [id, made] : groups_) report.groups.push_back(id);
  report.lists_all = true;
  return report;
}

/// Calls of thousands of groups may take long at a time. If each report listed them all, there would be as many numbers
/// to send as there are pairs of groups.
bool FailureRouter::may_list() {
  const auto now = Clock::now();
  if (now - listing_since_ >= listing_time) {
    listing_since_ = now;
    listed_ = 0;
  }
  if (listed_ >= most_listed_in_time) return false;
  listed_ += groups_.size() + closed_.size();
  return true;
}

void FailureRouter::ask(Group& group, const Wait& wait) {
  Report report = may_list() ? reunion_of(group) : report_of(group);
  report.operation = wait.operation;
  report.call = wait.call;
  report.peer = wait.peer;
  report.stalled = wait.stalled;
  report.overdue = wait.overdue;
  detector_->report(report);
}

void FailureRouter::answer_questions() {
  std::deque<Question> questions;
  {
    const std::lock_guard lock{questions_mutex_};
    questions.swap(questions_);
  }
  engine_->pass_and_look();  // on a busy machine a message may have waited for this thread as long as the question
  for (const Question& question : questions) question.reply(status_now(question.about));
}

Status FailureRouter::status_now(const Report& about) const {
  Status status;
  const auto found = groups_.find(about.group);
  if (found != groups_.end()) {
    found->second->answer(about, status);
    status.presence = Status::Presence::here;
  } else if (std::ranges::count(closed_, about.group) > 0) {
    status.presence = Status::Presence::closed;
  }
  // A reporter that does not list all its groups may have made any group.
  const bool may_wait_in_other = status.presence == Status::Presence::absent && about.lists_all;
  for (const auto& [id, group] : groups_) {
    Status there;
    if (!group->describe_wait(there)) continue;
    if (status.wait == Status::Wait::nothing || (status.asynchronous && !there.asynchronous)) {
      status.wait = there.wait;
      status.asynchronous = there.asynchronous;
      status.doing = id == about.group ? there.doing : fmt::format("{} of {}", there.doing, which(*group));
    }
    // An asynchronous call does not keep this rank from making the other group, until its caller waits for it.
    const bool is_stuck = !there.asynchronous || about.overdue;
    if (may_wait_in_other && is_stuck && std::ranges::count(about.groups, id) == 0 &&
        group->members() != about.members && std::ranges::count(group->members(), about.reporter) > 0) {
      status.other_members = group->members();
      status.other_group = id;
    }
  }
  return status;
}

std::string FailureRouter::which(const Group& group) const {
  if (std::cmp_equal(group.size(), names_.size())) return "a communicator of all ranks";
  return fmt::format("the communicator of the ranks {{{}}} of the job", fmt::join(group.members(), ", "));
}

}  // namespace tutti::detail
