#include "lib/failure/detector.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "lib/base/background_thread.h"
#include "lib/base/system_error_text.h"
#include "lib/failure/coordinator.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;
namespace tcp = transport::tcp;

constexpr milliseconds goodbye_time{500};
/// Enough for the coordinator to hear all sides and to answer.
constexpr milliseconds accusation_time{400};
/// For others to come and hear why nothing begins.
constexpr milliseconds explanation_time{1000};

}  // namespace

FailureDetector::FailureDetector(int rank, std::shared_ptr<tcp::Acceptor> acceptor, const Secret& key,
                                 std::shared_ptr<TlsProxies> tls_proxies)
    : rank_(rank),
      key_(key),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      calls_(rank, key_, std::move(tls_proxies)),
      acceptor_(std::move(acceptor)) {
  if (!bell_) throw Error{ErrorCode::system, "cannot make an eventfd for the failure detector: " + refusal(errno)};
  acceptor_->serve(Purpose::failure_detector, [this](const Hello& hello, tcp::Socket socket) {
    const auto guest = std::make_shared<Descriptor>(std::move(socket));
    post([this, guest, from = hello.from] { welcome(from, std::move(*guest)); });
  });
}

FailureDetector::~FailureDetector() {
  stop();
  shut();
}

/// Whoever was let in until now hears the goodbye, whoever comes later finds nobody.
void FailureDetector::shut() noexcept {
  acceptor_->dismiss(Purpose::failure_detector);
  acceptor_->close();
}

void FailureDetector::begin(std::vector<Watched> ranks, const WatchSettings& settings, DetectorUser& user,
                            Clock::time_point deadline) {
  ranks_ = std::move(ranks);
  states_.assign(ranks_.size(), State::alive);
  settings_ = settings;
  user_ = &user;
  thread_ = start_quiet_thread([this] { run(); });
  std::unique_lock lock{mutex_};
  news_.wait_until(lock, deadline, [this] { return ready_ || hopeless_; });
  if (ready_) return;
  const auto verdict = hopeless_;
  lock.unlock();
  stop();
  if (verdict) throw Error{verdict->code, "set-up: " + verdict->text, verdict->culprit};
  throw Error{ErrorCode::rendezvous,
              fmt::format("set-up: {} waited in vain for all ranks to connect to {} at {}, which watches over the job: "
                          "are they alive, and may their hosts connect to that port?",
                          name(rank_), name(0), ranks_.front().address),
              0};
}

void FailureDetector::stop() noexcept {
  if (!thread_.joinable()) return;
  post([this] {
    // Who leaves because a rank went before everybody was there is the only one who can tell the others which.
    leave_at_ = Clock::now() + (hopeless_ && coordinator_ ? explanation_time : milliseconds{0});
  });
  thread_.join();
}

void FailureDetector::post(std::function<void()> task) {
  const std::lock_guard lock{mutex_};
  tasks_.push_back(std::move(task));
  ::eventfd_write(bell_.get(), 1);
}

void FailureDetector::tell(const Verdict& verdict) {
  post([this, verdict] { send_to_coordinator({.kind = ControlMessage::Kind::verdict, .verdict = verdict}); });
}

void FailureDetector::accuse(const Verdict& verdict) {
  post([this, verdict] {
    accusations_.push_back({verdict, Clock::now() + accusation_time});
    send_to_coordinator({.kind = ControlMessage::Kind::accusation, .verdict = verdict});
  });
}

void FailureDetector::cut() {
  post([this] {
    cut_ = true;
    for (auto& [rank, connection] : connections_) connection.cut();
    callers_.clear();
    calls_.clear();
  });
}

void FailureDetector::report(const Report& report) {
  post([this, report] { send_to_coordinator({.kind = ControlMessage::Kind::report, .report = report}); });
}

Reunion FailureDetector::reunite(const Report& report, Clock::time_point deadline) {
  auto awaited = std::make_shared<Awaited>(Awaited{report, {}, {}});
  {
    const std::lock_guard lock{mutex_};
    reunions_[report.group] = awaited;
  }
  post([this] { tell_reunions(); });
  std::unique_lock lock{mutex_};
  const bool met = news_.wait_until(lock, deadline, [&] { return awaited->outcome.has_value(); });
  reunions_.erase(report.group);
  if (met) return *awaited->outcome;
  std::string names;
  for (const int rank : awaited->missing) names += (names.empty() ? "" : ", ") + name(rank);
  throw Error{ErrorCode::timeout,
              fmt::format("shrink: waited in vain for {}; every survivor must call shrink()",
                          names.empty() ? name(coordinator_rank_) + ", which gathers the survivors" : names),
              awaited->missing.empty() ? -1 : awaited->missing.front()};
}

// ---- The thread ------------------------------------------------------------------------------------------------

void FailureDetector::run() noexcept {
  led_until_ = Clock::now();
  elect();
  if (size() == 1) set_ready();
  while (!stopping_) {
    const auto before = Clock::now();
    wait_for_news();
    for (const auto& task : take_tasks()) task();
    const auto now = Clock::now();
    // Whoever was stopped himself must not take the others' silence for theirs.
    if (now - before > settings_.beat * 3) {
      for (auto& [rank, connection] : connections_) connection.forgive(now);
      led_until_ = now;  // and those who have no connection
    }
    tick(now);
    if (leave_at_ != Clock::time_point{} && (leave_at_ <= now || is_everybody_here())) leave();
  }
}

std::vector<std::function<void()>> FailureDetector::take_tasks() {
  const std::lock_guard lock{mutex_};
  return std::exchange(tasks_, {});
}

void FailureDetector::wait_for_news() {
  std::vector<pollfd> queries{{bell_.get(), POLLIN, 0}};
  std::vector<int> who;
  for (const auto& [rank, connection] : connections_) {
    queries.push_back({connection.fd(), static_cast<short>(connection.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
    who.push_back(rank);
  }
  for (const auto& [rank, connection] : callers_) queries.push_back({connection.fd(), POLLIN, 0});
  const std::size_t first_call = queries.size();
  calls_.add_queries(queries);
  auto until = std::min({next_tick_, next_look_, calls_.next()});
  if (leave_at_ != Clock::time_point{}) until = std::min(until, leave_at_);
  for (const Accusation& accusation : accusations_) until = std::min(until, accusation.until);
  if (coordinator_) until = std::min(until, coordinator_->next());
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  ::poll(queries.data(), queries.size(), static_cast<int>(std::clamp<long>(left, 0, 60'000)));
  auto outcomes = calls_.advance(std::span(queries).subspan(first_call), Clock::now());  // before others change them

  if (queries[0].revents != 0) {
    eventfd_t rung = 0;
    ::eventfd_read(bell_.get(), &rung);
  }
  for (std::size_t i = 0; i < who.size(); ++i) {
    const auto connection = connections_.find(who[i]);
    if (queries[i + 1].revents == 0 || connection == connections_.end()) continue;
    if ((queries[i + 1].revents & POLLOUT) != 0) connection->second.write();
    read(who[i]);
  }
  hear_callers();
  hear_calls(std::move(outcomes));
}

void FailureDetector::tick(Clock::time_point now) {
  if (!is_coordinator()) seek(now);
  if (coordinator_) coordinator_->tick(now);
  std::erase_if(accusations_, [&](const Accusation& accusation) {
    if (accusation.until > now) return false;
    user_->failed(without_verdict(accusation.verdict, now));
    return true;
  });
  std::vector<int> ended;  // by this side, which no poll() tells
  for (const auto& [rank, connection] : connections_)
    if (connection.ended()) ended.push_back(rank);
  for (const int rank : ended)
    if (connections_.erase(rank) > 0) line_ended(rank);
  if (now >= next_tick_) {
    next_tick_ = now + settings_.beat;
    for (auto& [rank, connection] : connections_) connection.send({.kind = ControlMessage::Kind::beat});
  }
  if (now < next_look_) return;
  next_look_ = now + settings_.beat;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_ || state(rank) != State::alive || (!is_coordinator() && rank != coordinator_rank_)) continue;
    listen_for(rank, now);
  }
}

/// The last sign of life of `rank`, or since when this rank listens.
FailureDetector::Clock::time_point FailureDetector::heard(int rank) const {
  if (const auto connection = connections_.find(rank); connection != connections_.end())
    return connection->second.heard();
  const auto call = called_.find(rank);
  // Others may have heard a little longer of the coordinator before.
  const auto since = is_coordinator() ? led_until_ + settings_.beat / 2 : led_until_;
  return call == called_.end() ? since : std::max(since, call->second);
}

void FailureDetector::listen_for(int rank, Clock::time_point now) {
  const auto last_sign = heard(rank);
  const std::chrono::duration<double> silence = now - last_sign;
  if (silence > settings_.lost) {
    return lose(rank,
                fmt::format("it has not been heard of for {:.1f} s: its process is stopped or starved, or its host or "
                            "network is down",
                            silence.count()));
  }
  if (silence <= settings_.lost / 2) return;
  next_look_ = std::min(next_look_, last_sign + settings_.lost + milliseconds{1});
  if (suspected_[rank] != last_sign) {
    suspected_[rank] = last_sign;  // once for each silence
    user_->suspected(fmt::format("{} has not been heard of for {:.1f} s, and counts as lost after {:.1f} s", name(rank),
                                 silence.count(), std::chrono::duration<double>(settings_.lost).count()));
  }
}

/// The coordinator has not said who is to blame for a broken link. If it has been silent for longer, it is: the peer
/// may have failed for the same reason, and left.
Verdict FailureDetector::without_verdict(Verdict verdict, Clock::time_point now) {
  const auto connection = connections_.find(coordinator_rank_);
  if (is_coordinator() || connection == connections_.end() || now - connection->second.heard() < settings_.beat * 5 / 4)
    return verdict;
  verdict.code = ErrorCode::timeout;
  verdict.culprit = coordinator_rank_;
  verdict.text =
      fmt::format("{} does not answer: its process is stopped or starved, or its host or network is down ({})",
                  name(coordinator_rank_), verdict.text);
  return verdict;
}

// ---- The end ---------------------------------------------------------------------------------------------------

bool FailureDetector::is_everybody_here() const {
  for (int rank = 0; rank < size(); ++rank)
    if (rank != rank_ && states_[static_cast<std::size_t>(rank)] == State::alive && !connections_.contains(rank))
      return false;
  return true;
}

void FailureDetector::leave() {
  has_left_ = true;
  shut();
  for (const auto& task : take_tasks()) task();
  say_goodbye();
  stopping_ = true;
}

void FailureDetector::say_goodbye() {
  ControlMessage goodbye{.kind = ControlMessage::Kind::leave};
  if (coordinator_)
    for (int rank = 0; rank < size(); ++rank)
      if (state(rank) == State::left) goodbye.ranks.push_back(rank);
  for (auto& [rank, connection] : callers_) connections_.emplace(rank, std::move(connection));
  callers_.clear();
  for (auto& [rank, connection] : connections_) connection.send(goodbye);
  const auto deadline = Clock::now() + goodbye_time;
  for (auto& [rank, connection] : connections_) connection.flush(deadline);
  connections_.clear();
}

}  // namespace tutti::detail
