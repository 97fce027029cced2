#include "lib/watch/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/quiet_thread.h"
#include "lib/base/refusal.h"
#include "lib/watch/centre.h"
#include "transport/tcp/dial.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;
namespace tcp = transport::tcp;

constexpr milliseconds goodbye_time{500};
constexpr std::size_t most_early = 256;
/// Enough for the centre to hear all sides and to answer.
constexpr milliseconds accusation_time{400};

}  // namespace

Watch::Watch(int rank, const std::string& bind_address, const Secret& key, std::shared_ptr<Tunnels> tunnels)
    : rank_(rank), key_(key), tunnels_(std::move(tunnels)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw Error{ErrorCode::system, "cannot make an eventfd for the watch: " + refusal(errno)};
  const auto address = tcp::parse_address(bind_address, 0);
  if (!address)
    throw Error{ErrorCode::invalid_argument, fmt::format("cannot listen on \"{}\": no numeric address", bind_address)};
  door_ = std::make_unique<tcp::Door>(*address, tcp::Credentials{key, rank, tunnels_}, Purpose::watch,
                                      [this](const Hello& hello, tcp::Socket socket) {
                                        const auto guest = std::make_shared<Descriptor>(std::move(socket));
                                        post([this, guest, rank = hello.from] { welcome(rank, std::move(*guest)); });
                                      });
}

Watch::~Watch() { stop(); }

void Watch::begin(std::vector<Watched> ranks, const WatchSettings& settings, WatchUser& user,
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

void Watch::stop() noexcept {
  door_.reset();  // whoever was let in until now hears the goodbye, whoever comes later finds nobody
  if (!thread_.joinable()) return;
  post([this] {
    say_goodbye();
    stopping_ = true;
  });
  thread_.join();
}

void Watch::post(std::function<void()> task) {
  const std::lock_guard lock{mutex_};
  tasks_.push_back(std::move(task));
  ::eventfd_write(bell_.get(), 1);
}

void Watch::tell(const Verdict& verdict) {
  post([this, verdict] { send_to_centre({.kind = Letter::Kind::verdict, .verdict = verdict}); });
}

void Watch::accuse(const Verdict& verdict) {
  post([this, verdict] {
    accusations_.push_back({verdict, Clock::now() + accusation_time});
    send_to_centre({.kind = Letter::Kind::accusation, .verdict = verdict});
  });
}

void Watch::cut() {
  post([this] {
    cut_ = true;
    for (auto& [rank, line] : lines_) line.cut();
    callers_.clear();
  });
}

void Watch::report(const Report& report) {
  post([this, report] { send_to_centre({.kind = Letter::Kind::report, .report = report}); });
}

Reunion Watch::reunite(const Report& report, Clock::time_point deadline) {
  auto awaited = std::make_shared<Awaited>(Awaited{report, {}, {}});
  {
    const std::lock_guard lock{mutex_};
    reunions_[report.group] = awaited;
  }
  post([this, report] { send_to_centre({.kind = Letter::Kind::reunion, .report = report}); });
  std::unique_lock lock{mutex_};
  const bool met = news_.wait_until(lock, deadline, [&] { return awaited->outcome.has_value(); });
  reunions_.erase(report.group);
  if (met) return *awaited->outcome;
  std::string names;
  for (const int rank : awaited->missing) names += (names.empty() ? "" : ", ") + name(rank);
  throw Error{ErrorCode::timeout,
              fmt::format("shrink: waited in vain for {}; every survivor must call shrink()",
                          names.empty() ? name(centre_rank_) + ", which gathers the survivors" : names),
              awaited->missing.empty() ? -1 : awaited->missing.front()};
}

// ---- The thread ------------------------------------------------------------------------------------------------

void Watch::run() noexcept {
  centre_since_ = Clock::now();
  elect();
  if (size() == 1) set_ready();
  while (!stopping_) {
    const auto before = Clock::now();
    wait_for_news();
    std::vector<std::function<void()>> tasks;
    {
      const std::lock_guard lock{mutex_};
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task();
    const auto now = Clock::now();
    // Whoever was stopped himself must not take the others' silence for theirs.
    if (now - before > settings_.beat * 3) {
      for (auto& [rank, line] : lines_) line.forgive(now);
      centre_since_ = now;  // and those who have no line
    }
    if (!stopping_) tick(now);
  }
}

void Watch::wait_for_news() {
  std::vector<pollfd> queries{{bell_.get(), POLLIN, 0}};
  std::vector<int> who;
  for (const auto& [rank, line] : lines_) {
    queries.push_back({line.fd(), static_cast<short>(line.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
    who.push_back(rank);
  }
  for (const auto& [rank, line] : callers_) queries.push_back({line.fd(), POLLIN, 0});
  auto until = next_tick_;
  for (const Accusation& accusation : accusations_) until = std::min(until, accusation.until);
  if (centre_) until = std::min(until, centre_->next());
  if (!is_centre() && lines_.empty()) until = std::min(until, connect_at_);
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  if (::poll(queries.data(), queries.size(), static_cast<int>(std::clamp<long>(left, 0, 60'000))) <= 0) return;

  if (queries[0].revents != 0) {
    eventfd_t rung = 0;
    ::eventfd_read(bell_.get(), &rung);
  }
  for (std::size_t i = 0; i < who.size(); ++i) {
    const auto line = lines_.find(who[i]);
    if (queries[i + 1].revents == 0 || line == lines_.end()) continue;
    if ((queries[i + 1].revents & POLLOUT) != 0) line->second.write();
    read(who[i]);
  }
  hear_callers();
}

void Watch::tick(Clock::time_point now) {
  if (!is_centre() && lines_.empty() && now >= connect_at_) connect();
  if (centre_) centre_->tick(now);
  std::erase_if(accusations_, [&](const Accusation& accusation) {
    if (accusation.until > now) return false;
    user_->failed(without_verdict(accusation.verdict, now));
    return true;
  });
  std::vector<int> ended;  // by this side, which no poll() tells
  for (const auto& [rank, line] : lines_)
    if (line.ended()) ended.push_back(rank);
  for (const int rank : ended)
    if (lines_.erase(rank) > 0) line_ended(rank);
  if (now < next_tick_) return;
  next_tick_ = now + settings_.beat;
  for (auto& [rank, line] : lines_) line.send({.kind = Letter::Kind::beat});
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_ || state(rank) != State::alive || (!is_centre() && rank != centre_rank_)) continue;
    listen_for(rank, now);
  }
}

/// The last sign of life of `rank`, or since when this rank listens.
Watch::Clock::time_point Watch::heard(int rank) const {
  if (const auto line = lines_.find(rank); line != lines_.end()) return line->second.heard();
  const auto call = called_.find(rank);
  return call == called_.end() ? centre_since_ : std::max(centre_since_, call->second);
}

void Watch::listen_for(int rank, Clock::time_point now) {
  const auto last_sign = heard(rank);
  const std::chrono::duration<double> silence = now - last_sign;
  if (silence > settings_.lost) {
    lose(rank, fmt::format("it has not been heard of for {:.1f} s: its process is stopped or starved, or its host or "
                           "network is down",
                           silence.count()));
  } else if (silence > settings_.lost / 2 && suspected_[rank] != last_sign) {
    suspected_[rank] = last_sign;  // once for each silence
    user_->suspected(fmt::format("{} has not been heard of for {:.1f} s, and counts as lost after {:.1f} s", name(rank),
                                 silence.count(), std::chrono::duration<double>(settings_.lost).count()));
  }
}

/// The centre has not said who is to blame for a broken link. If it has been silent for longer, it is: the peer may
/// have failed for the same reason, and left.
Verdict Watch::without_verdict(Verdict verdict, Clock::time_point now) {
  const auto line = lines_.find(centre_rank_);
  if (is_centre() || line == lines_.end() || now - line->second.heard() < settings_.beat * 5 / 4) return verdict;
  verdict.code = ErrorCode::timeout;
  verdict.culprit = centre_rank_;
  verdict.text =
      fmt::format("{} does not answer: its process is stopped or starved, or its host or network is down ({})",
                  name(centre_rank_), verdict.text);
  return verdict;
}

// ---- Lines -----------------------------------------------------------------------------------------------------

void Watch::welcome(int rank, Descriptor socket) {
  if (rank < 0 || rank >= size() || rank == rank_ || state(rank) != State::alive || lines_.contains(rank)) return;
  if (cut_) return;
  callers_.emplace_back(rank, Line{std::move(socket)});
  called_[rank] = Clock::now();
}

void Watch::hear_callers() {
  for (std::size_t i = 0; i < callers_.size();) {
    auto& [rank, line] = callers_[i];
    std::vector<Letter> letters;
    line.read(letters);
    if (!letters.empty()) {
      admit(rank, std::move(line), letters);
      i = 0;
    } else if (line.ended()) {
      callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

/// The first line on which `rank` has spoken.
void Watch::admit(int rank, Line line, const std::vector<Letter>& letters) {
  std::erase_if(callers_, [rank](const auto& caller) { return caller.first == rank; });
  if (state(rank) != State::alive || lines_.contains(rank)) return;
  Line& kept = lines_.emplace(rank, std::move(line)).first->second;
  if (centre_ && !kept.ended()) {
    centre_->brief(kept);
    if (!ready_ && std::cmp_equal(lines_.size(), size() - 1)) set_ready();
  }
  heed(rank, letters);
}

void Watch::set_ready() {
  if (centre_)
    for (auto& [rank, line] : lines_) line.send({.kind = Letter::Kind::ready});
  const std::lock_guard lock{mutex_};
  ready_ = true;
  news_.notify_all();
}

void Watch::give_up_before_ready(const Verdict& verdict) {
  const std::lock_guard lock{mutex_};
  if (!ready_) hopeless_ = verdict;
  news_.notify_all();
}

void Watch::read(int rank) {
  const auto line = lines_.find(rank);
  std::vector<Letter> letters;
  line->second.read(letters);
  heed(rank, letters);
}

/// What has just been read on the line of `rank`, and the line's end if it came behind.
void Watch::heed(int rank, const std::vector<Letter>& letters) {
  const bool ended = lines_.find(rank)->second.ended();
  for (const Letter& letter : letters) handle(rank, letter);
  if (ended && lines_.erase(rank) > 0) line_ended(rank);
}

void Watch::handle(int from, const Letter& letter) {
  if (letter.kind == Letter::Kind::beat) return;
  if (letter.kind == Letter::Kind::leave) {
    state(from) = State::left;
    give_up_before_ready({0, ErrorCode::rendezvous, from, 0, fmt::format("{} has given up", name(from))});
    for (const int rank : letter.ranks)
      if (rank >= 0 && rank < size() && state(rank) == State::alive && rank != rank_) state(rank) = State::left;
    if (centre_) centre_->gone(from);
    return;
  }
  if (centre_) return centre_->handle(from, letter);
  if (from == centre_rank_) return handle_as_member(letter);
  // Whoever turns to us knows already that the centre is gone, which we are about to see.
  if (early_.size() < most_early) early_.emplace_back(from, letter);
}

void Watch::handle_as_member(const Letter& letter) {
  if (letter.kind == Letter::Kind::ready) return set_ready();
  if (letter.kind == Letter::Kind::verdict) {
    const Verdict& verdict = letter.verdict;
    if (verdict.group == 0 && verdict.culprit >= 0 && verdict.culprit < size()) state(verdict.culprit) = State::lost;
    learn(verdict);
    user_->failed(verdict);
  } else if (letter.kind == Letter::Kind::question) {
    if (const auto status = user_->status(letter.report))
      send_to_centre({.kind = Letter::Kind::answer, .number = letter.number, .status = *status});
  } else if (letter.kind == Letter::Kind::decision) {
    const std::lock_guard lock{mutex_};
    const auto found = reunions_.find(letter.report.group);
    if (found == reunions_.end()) return;
    if (letter.number == 0) {
      found->second->missing = letter.ranks;
      return;
    }
    found->second->outcome = Reunion{letter.number, letter.ranks};
    news_.notify_all();
  }
}

void Watch::say_goodbye() {
  Letter goodbye{.kind = Letter::Kind::leave};
  if (centre_)
    for (int rank = 0; rank < size(); ++rank)
      if (state(rank) == State::left) goodbye.ranks.push_back(rank);
  for (auto& [rank, line] : callers_) lines_.emplace(rank, std::move(line));
  callers_.clear();
  for (auto& [rank, line] : lines_) line.send(goodbye);
  const auto deadline = Clock::now() + goodbye_time;
  for (auto& [rank, line] : lines_) line.flush(deadline);
  lines_.clear();
}

}  // namespace tutti::detail
