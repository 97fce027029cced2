// Who is the centre: the lowest rank that is alive, as far as this one knows. When it goes, everybody turns to the
// next.

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/watch/centre.h"
#include "lib/watch/watch.h"
#include "transport/tcp/dial.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;
namespace tcp = transport::tcp;

/// Of the first try; each further one may take longer, up to the last. In between it is seen whether anybody listens.
constexpr milliseconds connect_time{200};
constexpr milliseconds longest_connect_time{1600};
constexpr milliseconds connect_pause{100};
/// When the centre has left on purpose the job is usually about to end, and its successor too.
constexpr milliseconds succession_pause{300};
constexpr std::size_t most_unposted = 256;
constexpr std::size_t most_verdicts = 64;

/// Nobody listens there.
bool is_refused(const std::string& text) {
  const auto address = tcp::parse_address(text);
  if (!address) return true;
  int error = 0;
  const tcp::Socket socket = tcp::connect_to(*address, "", error);
  if (error == EINPROGRESS) {
    pollfd query{socket.get(), POLLOUT, 0};
    error = ::poll(&query, 1, static_cast<int>(longest_connect_time.count())) > 0 ? tcp::connected(socket) : ETIMEDOUT;
  }
  return error == ECONNREFUSED;
}

}  // namespace

void Watch::line_ended(int rank) {
  if (state(rank) == State::alive)
    return lose(rank,
                "its connection ended without a goodbye: its process crashed, was killed or exited early, or its "
                "network is cut; its own output says more");
  if (rank != centre_rank_) return;
  predecessor_died_ = state(rank) == State::lost;
  connect_at_ = Clock::now() + (predecessor_died_ ? milliseconds{0} : succession_pause);
  elect();
}

void Watch::lose(int rank, const std::string& how) {
  state(rank) = State::lost;
  const Verdict verdict{0, ErrorCode::peer_lost, rank, 0, fmt::format("{} is lost: {}", name(rank), how)};
  give_up_before_ready(verdict);
  // Should it come back, it learns from this that the others went on without it.
  if (const auto line = lines_.find(rank); line != lines_.end())
    line->second.send({.kind = Letter::Kind::verdict, .verdict = verdict});
  lines_.erase(rank);
  if (rank == centre_rank_) {
    predecessor_died_ = true;
    connect_at_ = Clock::now();
    elect();
  }
  if (centre_) {
    centre_->publish(verdict);
    centre_->gone(rank);
  } else {
    learn(verdict);
    user_->failed(verdict);
  }
}

bool Watch::learn(const Verdict& verdict) {
  const bool known = std::ranges::any_of(verdicts_, [&](const Verdict& earlier) {
    return earlier.group == verdict.group && (verdict.group != 0 || earlier.culprit == verdict.culprit);
  });
  if (known) return false;
  if (verdicts_.size() == most_verdicts) verdicts_.erase(verdicts_.begin());  // worst case: said twice
  verdicts_.push_back(verdict);
  return true;
}

/// The lowest rank that is alive. This one is, so there always is one.
void Watch::elect() {
  int next = 0;
  while (next < rank_ && state(next) != State::alive) ++next;
  if (next == centre_rank_ && (centre_ || !is_centre())) return;
  centre_rank_ = next;
  patience_ = connect_time;
  centre_since_ = Clock::now();
  lines_.erase(rank_);
  if (is_centre() && !centre_) {
    centre_ = std::make_unique<Centre>(*this);
    for (auto& [rank, line] : lines_) centre_->brief(line);
    catch_up();
    for (const auto& [from, letter] : std::exchange(early_, {}))
      if (state(from) == State::alive) centre_->handle(from, letter);
  }
}

/// Whose process is gone is known at once; everything else takes its time.
void Watch::connect() {
  const int centre = centre_rank_;
  const std::string& address = ranks_[static_cast<std::size_t>(centre)].address;
  connect_at_ = Clock::now() + connect_pause;
  try {
    if (centre > 0 && is_refused(address)) return centre_is_gone();
    const Hello hello{.from = rank_, .to = centre, .channel = 0, .purpose = Purpose::watch};
    Descriptor socket = tcp::connect_authenticated(address, key_, hello, Clock::now() + patience_, tunnels_);
    Line& line = lines_.emplace(centre, Line{std::move(socket)}).first->second;
    line.send({.kind = Letter::Kind::beat});
    catch_up();
  } catch (const Error& failure) {
    if (failure.code() == ErrorCode::system)
      give_up_before_ready({0, ErrorCode::system, rank_, 0, failure.what()});  // this host lacks something
    if (is_refused(address)) return centre_is_gone();
    patience_ = std::min(2 * patience_, longest_connect_time);  // tried again, until the silence has lasted too long
  }
}

void Watch::centre_is_gone() {
  if (predecessor_died_) return lose(centre_rank_, "its process does not exist any more");
  state(centre_rank_) = State::left;
  give_up_before_ready({0, ErrorCode::rendezvous, centre_rank_, 0, fmt::format("{} has given up", name(centre_rank_))});
  elect();
}

void Watch::send_to_centre(const Letter& letter) {
  if (centre_) return centre_->handle(rank_, letter);
  const auto line = lines_.find(centre_rank_);
  if (line != lines_.end()) return line->second.send(letter);
  if (unposted_.size() < most_unposted) unposted_.push_back(letter);
}

/// What was to be said while there was no centre.
void Watch::catch_up() {
  for (const Letter& letter : std::exchange(unposted_, {})) send_to_centre(letter);
  const std::lock_guard lock{mutex_};
  for (const auto& [group, awaited] : reunions_)
    tasks_.push_back(
        [this, report = awaited->report] { send_to_centre({.kind = Letter::Kind::reunion, .report = report}); });
  ::eventfd_write(bell_.get(), 1);
}

}  // namespace tutti::detail
