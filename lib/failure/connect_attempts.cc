#include "lib/failure/connect_attempts.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;

/// How long the first attempt may take; each further one may take longer, up to the last of these. Between attempts it
/// becomes clear whether anybody still listens, which an attempt that is running may not show.
constexpr milliseconds first_patience{200};
constexpr milliseconds longest_patience{1600};
constexpr milliseconds first_pause{100};
/// Longest time between two probes whether anybody listens.
constexpr milliseconds longest_pause{800};

}  // namespace

void ConnectAttempts::connect(int rank, const std::string& address, Clock::time_point at) {
  add(rank, address, at, false);
}

void ConnectAttempts::probe(int rank, const std::string& address, Clock::time_point at) {
  add(rank, address, at, true);
}

void ConnectAttempts::add(int rank, const std::string& address, Clock::time_point at, bool probe) {
  attempts_.insert_or_assign(rank, Attempt{net::parse_address(address), probe, at, first_patience, first_pause});
}

ConnectAttempts::Clock::time_point ConnectAttempts::next() const {
  auto next = Clock::time_point::max();
  for (const auto& [rank, attempt] : attempts_) next = std::min(next, attempt.at);
  return next;
}

void ConnectAttempts::add_queries(std::vector<pollfd>& queries) const {
  for (const auto& [rank, attempt] : attempts_)
    if (attempt.connector) queries.push_back({attempt.connector->fd(), attempt.connector->events(), 0});
}

void ConnectAttempts::begin(int rank, Attempt& attempt, Clock::time_point now) const {
  if (attempt.probe) {
    attempt.connector.emplace(*attempt.address);
  } else {
    const Hello hello{.from = self_, .to = rank, .channel = 0, .purpose = Purpose::failure_detector};
    attempt.connector.emplace(*attempt.address, key_, hello, tls_proxies_);
  }
  attempt.at = now + attempt.patience;
}

void ConnectAttempts::put_off(Attempt& attempt, Clock::time_point now) {
  attempt.connector.reset();
  attempt.at = now + attempt.pause;
  if (attempt.probe) attempt.pause = std::min(2 * attempt.pause, longest_pause);
}

std::vector<ConnectAttempts::Outcome> ConnectAttempts::advance(std::span<const pollfd> answers, Clock::time_point now) {
  std::vector<Outcome> outcomes;
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    auto& [rank, attempt] = *it;
    bool ready = false;
    if (attempt.connector && !answers.empty()) {
      ready = answers.front().revents != 0;
      answers = answers.subspan(1);
    } else if (attempt.at <= now && !attempt.address) {
      outcomes.push_back({rank, EINVAL});
      put_off(attempt, now);
    } else if (!attempt.connector && attempt.at <= now) {
      begin(rank, attempt, now);
      ready = true;
    }
    const int error = ready ? attempt.connector->advance() : EAGAIN;
    if (error == 0 && !attempt.probe) {
      outcomes.push_back({rank, 0, attempt.connector->take()});
      it = attempts_.erase(it);
      continue;
    }
    if (error == ECONNREFUSED || net::is_our_own(error)) outcomes.push_back({rank, error});
    if (error == EAGAIN && attempt.connector && attempt.at <= now)
      attempt.patience = std::min(2 * attempt.patience, longest_patience);
    if (error != EAGAIN || (attempt.connector && attempt.at <= now)) put_off(attempt, now);
    ++it;
  }
  return outcomes;
}

}  // namespace tutti::detail
