#include "lib/failure/connections.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>

namespace tutti::detail {

ControlConnection* Connections::find(int rank) {
  const auto found = connections_.find(rank);
  return found == connections_.end() ? nullptr : &found->second;
}

const ControlConnection* Connections::find(int rank) const {
  const auto found = connections_.find(rank);
  return found == connections_.end() ? nullptr : &found->second;
}

void Connections::send_to_all(const ControlMessage& message) {
  for (auto& [rank, connection] : connections_) connection.send(message);
}

void Connections::accept(int rank, Descriptor socket) {
  accepted_.emplace_back(rank, ControlConnection{std::move(socket)});
  accepted_at_[rank] = Clock::now();
}

bool Connections::has_accepted(int rank) const {
  return std::ranges::count(accepted_, rank, [](const auto& accepted) { return accepted.first; }) > 0;
}

std::optional<Connections::Clock::time_point> Connections::last_accepted(int rank) const {
  const auto found = accepted_at_.find(rank);
  if (found == accepted_at_.end()) return std::nullopt;
  return found->second;
}

std::optional<Connections::Accepted> Connections::next_with_message() {
  for (std::size_t i = 0; i < accepted_.size();) {
    auto& [rank, connection] = accepted_[i];
    std::vector<ControlMessage> messages;
    connection.read(messages);
    if (!messages.empty()) {
      Accepted accepted{rank, std::move(connection), std::move(messages)};
      std::erase_if(accepted_, [&accepted](const auto& one) { return one.first == accepted.rank; });
      return accepted;
    }
    if (connection.ended()) {
      accepted_.erase(accepted_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return std::nullopt;
}

Connections::News Connections::wait(int bell, Clock::time_point until) {
  std::vector<pollfd> queries{{bell, POLLIN, 0}};
  std::vector<int> ranks;
  for (const auto& [rank, connection] : connections_) {
    queries.push_back({connection.fd(), static_cast<short>(connection.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
    ranks.push_back(rank);
  }
  for (const auto& [rank, connection] : accepted_) queries.push_back({connection.fd(), POLLIN, 0});
  const std::size_t first_attempt = queries.size();
  attempts_.add_queries(queries);
  until = std::min(until, attempts_.next());
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  ::poll(queries.data(), queries.size(), static_cast<int>(std::clamp<long>(left, 0, 60'000)));

  News news{.messages = {}, .outcomes = attempts_.advance(std::span(queries).subspan(first_attempt), Clock::now())};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const short events = queries[i + 1].revents;
    if (events == 0) continue;
    ControlConnection& connection = connections_.find(ranks[i])->second;
    if ((events & POLLOUT) != 0) connection.write();
    connection.read(news.messages.emplace_back(ranks[i], std::vector<ControlMessage>{}).second);
  }
  return news;
}

void Connections::forgive(Clock::time_point now) {
  for (auto& [rank, connection] : connections_) connection.forgive(now);
}

void Connections::cut() {
  for (auto& [rank, connection] : connections_) connection.cut();
  accepted_.clear();
  attempts_.clear();
}

void Connections::close(const ControlMessage& last, Clock::time_point deadline) {
  for (auto& [rank, connection] : accepted_) connections_.emplace(rank, std::move(connection));
  accepted_.clear();
  send_to_all(last);
  for (auto& [rank, connection] : connections_) connection.finish(deadline);
  std::erase_if(connections_, [](const auto& entry) { return entry.second.ended(); });  // of which poll() says nothing
  while (!connections_.empty() && Clock::now() < deadline) hear_ends(deadline);
  connections_.clear();
}

/// Waits until there is something to read, and forgets the connections that the peers have closed, too.
void Connections::hear_ends(Clock::time_point deadline) {
  std::vector<pollfd> queries;
  for (const auto& [rank, connection] : connections_) queries.push_back({connection.fd(), POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  ::poll(queries.data(), queries.size(), static_cast<int>(std::max<long>(left, 0)));
  for (auto it = connections_.begin(); it != connections_.end();) {
    std::vector<ControlMessage> ignored;
    it->second.read(ignored);
    it = it->second.ended() ? connections_.erase(it) : std::next(it);
  }
}

}  // namespace tutti::detail
