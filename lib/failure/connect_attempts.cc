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
  if (const auto where = net::parse_address(address))
    attempts_.insert_or_assign(rank, Attempt{*where, probe, at, first_patience, first_pause});
}

ConnectAttempts::Clock::time_point ConnectAttempts::next() const {
  auto next = Clock::time_point::max();
  for (const auto& [rank, call] : attempts_) next = std::min(next, call.at);
  return next;
}

void ConnectAttempts::add_queries(std::vector<pollfd>& queries) const {
  for (const auto& [rank, call] : attempts_)
    if (call.connector) queries.push_back({call.connector->fd(), call.connector->events(), 0});
}

void ConnectAttempts::begin(int rank, Attempt& call, Clock::time_point now) const {
  if (call.probe) {
    call.connector.emplace(call.address);
  } else {
    const Hello hello{.from = self_, .to = rank, .channel = 0, .purpose = Purpose::failure_detector};
    call.connector.emplace(call.address, key_, hello, tls_proxies_);
  }
  call.at = now + call.patience;
}

void ConnectAttempts::put_off(Attempt& call, Clock::time_point now) {
  call.connector.reset();
  call.at = now + call.pause;
  if (call.probe) call.pause = std::min(2 * call.pause, longest_pause);
}

std::vector<ConnectAttempts::Outcome> ConnectAttempts::advance(std::span<const pollfd> answers, Clock::time_point now) {
  std::vector<Outcome> outcomes;
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    auto& [rank, call] = *it;
    bool ready = false;
    if (call.connector && !answers.empty()) {
      ready = answers.front().revents != 0;
      answers = answers.subspan(1);
    } else if (!call.connector && call.at <= now) {
      begin(rank, call, now);
      ready = true;
    }
    const int error = ready ? call.connector->advance() : EAGAIN;
    if (error == 0 && !call.probe) {
      outcomes.push_back({rank, 0, call.connector->take()});
      it = attempts_.erase(it);
      continue;
    }
    if (error == ECONNREFUSED || net::is_our_own(error)) outcomes.push_back({rank, error});
    if (error == EAGAIN && call.connector && call.at <= now)
      call.patience = std::min(2 * call.patience, longest_patience);
    if (error != EAGAIN || (call.connector && call.at <= now)) put_off(call, now);
    ++it;
  }
  return outcomes;
}

}  // namespace tutti::detail
