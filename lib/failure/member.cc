#include "lib/failure/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/failure/coordinator.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds leave_time{500};
/// How long other ranks may come and be told why the job does not begin.
constexpr milliseconds explanation_time{1000};

}  // namespace

Member::Member(int rank, std::shared_ptr<transport::Acceptor> acceptor, const Secret& key,
               std::shared_ptr<TlsProxies> tls_proxies, const Shared& shared)
    : rank_(rank),
      key_(key),
      acceptor_(std::move(acceptor)),
      shared_(shared),
      connections_(rank, key_, std::move(tls_proxies)),
      succession_(rank, job_, connections_) {}

Member::~Member() = default;

void Member::begin(std::vector<Watched> ranks, const WatchSettings& settings, DetectorUser& user) {
  job_.begin(std::move(ranks));
  settings_ = settings;
  user_ = &user;
}

void Member::suspect(const Failure& failure, const Report& calls) {
  suspicions_.add({failure, calls});
  send_to_coordinator({.kind = ControlMessage::Kind::suspicion, .failure = failure, .report = calls});
}

void Member::cut() {
  cut_ = true;
  connections_.cut();
}

void Member::leave_soon() {
  // If this rank leaves because another one went before all were there, it is the only one that can tell the others
  // which.
  leave_at_ = Clock::now() + (shared_.readiness.hopeless() && coordinator_ ? explanation_time : milliseconds{0});
}

void Member::run() {
  succession_.set_led_until(Clock::now());
  elect();
  if (job_.size() == 1) set_ready();
  for (auto last = Clock::now(); !stopping_;) {
    wait_for_news();
    for (const auto& task : shared_.tasks.take()) task();
    const auto now = Clock::now();
    // A process that was stopped, wherever in this loop, must not take the others' silence for theirs.
    if (now - std::exchange(last, now) > settings_.beat * 3) {
      connections_.forgive(now);
      succession_.set_led_until(now);  // the same for ranks without a connection
    }
    tick(now);
    if (leave_at_ != Clock::time_point{} && (leave_at_ <= now || is_everybody_here())) leave();
  }
}

void Member::wait_for_news() {
  auto until = std::min({next_tick_, next_look_, suspicions_.next()});
  if (leave_at_ != Clock::time_point{}) until = std::min(until, leave_at_);
  if (coordinator_) until = std::min(until, coordinator_->next());
  Connections::News news = connections_.wait(shared_.tasks.fd(), until);
  for (const auto& [rank, messages] : news.messages)
    if (connections_.contains(rank)) heed(rank, messages);  // a message of another rank may have ended its connection
  while (auto accepted = connections_.next_with_message()) admit(std::move(*accepted));
  hear_outcomes(std::move(news.outcomes));
}

void Member::tick(Clock::time_point now) {
  if (!is_coordinator()) {
    succession_.note_sign_of_life();
    if (!cut_) succession_.seek(now, settings_.beat, shared_.readiness.is_ready());
  }
  if (coordinator_) coordinator_->tick(now);
  for (const Failure& suspicion : suspicions_.take_overdue(now)) user_->failed(undecided(suspicion, now));
  std::vector<int> ended;  // ended by this rank, which poll() does not show
  for (const auto& [rank, connection] : connections_.all())
    if (connection.ended()) ended.push_back(rank);
  for (const int rank : ended)
    if (connections_.remove(rank)) line_ended(rank);
  if (now >= next_tick_) {
    next_tick_ = now + settings_.beat;
    connections_.send_to_all({.kind = ControlMessage::Kind::beat});
  }
  if (now < next_look_) return;
  next_look_ = now + settings_.beat;
  for (int rank = 0; rank < job_.size(); ++rank) {
    if (rank == rank_ || !job_.is_alive(rank) || (!is_coordinator() && rank != coordinator())) continue;
    listen_for(rank, now);
  }
}

/// When `rank` last sent something, or when this rank began to listen to it.
Member::Clock::time_point Member::heard(int rank) const {
  if (const ControlConnection* const connection = connections_.find(rank)) return connection->heard();
  // Other ranks may have heard of the previous coordinator a little longer.
  const auto since = is_coordinator() ? succession_.led_until() + settings_.beat / 2 : succession_.led_until();
  return std::max(since, connections_.last_accepted(rank).value_or(since));
}

void Member::listen_for(int rank, Clock::time_point now) {
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
    suspected_[rank] = last_sign;  // warn once for each silence
    user_->suspected(fmt::format("{} has not been heard of for {:.1f} s, and counts as lost after {:.1f} s",
                                 job_.name(rank), silence.count(),
                                 std::chrono::duration<double>(settings_.lost).count()));
  }
}

/// The failure for a suspicion about which the coordinator has not decided. If the coordinator has been silent for
/// longer than the peer, it is the culprit itself: the peer may have failed for the same reason, and left.
Failure Member::undecided(Failure failure, Clock::time_point now) const {
  const ControlConnection* const connection = connections_.find(coordinator());
  if (is_coordinator() || !connection || now - connection->heard() < settings_.beat * 5 / 4) return failure;
  failure.code = ErrorCode::timeout;
  failure.culprit = coordinator();
  failure.text =
      fmt::format("{} does not answer: its process is stopped or starved, or its host or network is down ({})",
                  job_.name(coordinator()), failure.text);
  return failure;
}

// ---- The end ---------------------------------------------------------------------------------------------------

bool Member::is_everybody_here() const {
  for (int rank = 0; rank < job_.size(); ++rank)
    if (rank != rank_ && job_.is_alive(rank) && !connections_.contains(rank)) return false;
  return true;
}

/// Ranks that have been let in until now are told that this rank leaves; later ones find nobody. The acceptor ends
/// before its handler: a connection that it has accepted must be handed over, or that rank would see it end without a
/// `leave` message.
void Member::leave() {
  has_left_ = true;
  acceptor_->close();
  acceptor_->dismiss(Purpose::failure_detector);
  for (const auto& task : shared_.tasks.take()) task();
  ControlMessage last{.kind = ControlMessage::Kind::leave};
  if (coordinator_) {
    coordinator_->leave();
    last.ranks = job_.all_that_left();
  }
  connections_.close(last, Clock::now() + leave_time);
  stopping_ = true;
}

}  // namespace tutti::detail
