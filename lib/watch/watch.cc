#include "lib/watch/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/quiet_thread.h"
#include "lib/watch/centre.h"
#include "transport/tcp/dial.h"

namespace tutti::detail {
namespace {

using std::chrono::milliseconds;
namespace tcp = transport::tcp;

constexpr milliseconds connect_time{1500};
constexpr milliseconds connect_pause{100};
/// When the centre has left on purpose the job is usually about to end, and its successor too.
constexpr milliseconds succession_pause{300};
constexpr milliseconds goodbye_time{500};
constexpr std::size_t most_unposted = 256;
/// Enough for the centre to hear all sides and to answer.
constexpr milliseconds accusation_time{400};

/// Nobody listens there.
bool is_refused(const std::string& text) {
  const auto address = tcp::parse_address(text);
  if (!address) return true;
  int error = 0;
  const tcp::Socket socket = tcp::connect_to(*address, "", error);
  if (error == EINPROGRESS) {
    pollfd query{socket.get(), POLLOUT, 0};
    error = ::poll(&query, 1, static_cast<int>(connect_time.count())) > 0 ? tcp::connected(socket) : ETIMEDOUT;
  }
  return error == ECONNREFUSED;
}

}  // namespace

Watch::Watch(int rank, const std::string& bind_address, const Secret& key)
    : rank_(rank), key_(key), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw Error{ErrorCode::system, "cannot make an eventfd for the watch: raise `ulimit -n`"};
  const auto address = tcp::parse_address(bind_address, 0);
  if (!address)
    throw Error{ErrorCode::invalid_argument, fmt::format("cannot listen on \"{}\": no numeric address", bind_address)};
  door_ = std::make_unique<tcp::Door>(*address, tcp::Credentials{key, rank}, Purpose::watch,
                                      [this](const Hello& hello, tcp::Socket socket) {
                                        const auto guest = std::make_shared<Descriptor>(std::move(socket));
                                        post([this, guest, rank = hello.from] { welcome(rank, std::move(*guest)); });
                                      });
}

Watch::~Watch() { stop(); }

void Watch::begin(std::vector<Watched> ranks, const WatchSettings& settings, WatchUser& user) {
  ranks_ = std::move(ranks);
  states_.assign(ranks_.size(), State::alive);
  settings_ = settings;
  user_ = &user;
  thread_ = start_quiet_thread([this] { run(); });
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
    for (auto& [rank, line] : lines_) line.cut();
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
  const bool met = reunited_.wait_until(lock, deadline, [&] { return awaited->outcome.has_value(); });
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
    if (now - before > settings_.beat * 3)
      for (auto& [rank, line] : lines_) line.forgive(now);
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
}

void Watch::tick(Clock::time_point now) {
  if (!is_centre() && lines_.empty() && now >= connect_at_) connect();
  if (centre_) centre_->tick(now);
  std::erase_if(accusations_, [&](const Accusation& accusation) {
    if (accusation.until > now) return false;
    user_->failed(accusation.verdict);
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
    const auto line = lines_.find(rank);
    const auto heard = line != lines_.end() ? line->second.heard() : centre_since_;
    if (now - heard > settings_.lost)
      lose(rank, fmt::format("it has not been heard of for {:.1f} s: its process is stopped or starved, or its host or "
                             "network is down",
                             std::chrono::duration<double>(now - heard).count()));
  }
}

// ---- Lines -----------------------------------------------------------------------------------------------------

void Watch::welcome(int rank, Descriptor socket) {
  if (rank < 0 || rank >= size() || rank == rank_ || state(rank) != State::alive || lines_.contains(rank)) return;
  const auto line = lines_.emplace(rank, Line{std::move(socket)}).first;
  if (centre_) centre_->brief(line->second);
}

void Watch::read(int rank) {
  const auto line = lines_.find(rank);
  std::vector<Letter> letters;
  line->second.read(letters);
  const bool ended = line->second.ended();
  for (const Letter& letter : letters) handle(rank, letter);
  if (ended && lines_.erase(rank) > 0) line_ended(rank);
}

void Watch::handle(int from, const Letter& letter) {
  if (letter.kind == Letter::Kind::leave) {
    state(from) = State::left;
    for (const int rank : letter.ranks)
      if (rank >= 0 && rank < size() && state(rank) == State::alive && rank != rank_) state(rank) = State::left;
    if (centre_) centre_->gone(from);
    return;
  }
  if (centre_) return centre_->handle(from, letter);
  if (from == centre_rank_) handle_as_member(letter);
}

void Watch::handle_as_member(const Letter& letter) {
  if (letter.kind == Letter::Kind::verdict) {
    const Verdict& verdict = letter.verdict;
    if (verdict.group == 0 && verdict.culprit >= 0 && verdict.culprit < size()) state(verdict.culprit) = State::lost;
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
    reunited_.notify_all();
  }
}

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
    user_->failed(verdict);
  }
}

/// The lowest rank that is alive. This one is, so there always is one.
void Watch::elect() {
  int next = 0;
  while (next < rank_ && state(next) != State::alive) ++next;
  if (next == centre_rank_ && (centre_ || !is_centre())) return;
  centre_rank_ = next;
  centre_since_ = Clock::now();
  lines_.erase(rank_);
  if (is_centre() && !centre_) {
    centre_ = std::make_unique<Centre>(*this);
    catch_up();
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
    Descriptor socket = tcp::connect_authenticated(address, key_, hello, Clock::now() + connect_time);
    lines_.emplace(centre, Line{std::move(socket)});
    catch_up();
  } catch (const Error&) {
    if (is_refused(address)) return centre_is_gone();
    // Else tried again, until the silence has lasted too long.
  }
}

void Watch::centre_is_gone() {
  if (predecessor_died_) return lose(centre_rank_, "its process does not exist any more");
  state(centre_rank_) = State::left;
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

void Watch::say_goodbye() {
  Letter goodbye{.kind = Letter::Kind::leave};
  if (centre_)
    for (int rank = 0; rank < size(); ++rank)
      if (state(rank) == State::left) goodbye.ranks.push_back(rank);
  for (auto& [rank, line] : lines_) line.send(goodbye);
  const auto deadline = Clock::now() + goodbye_time;
  for (auto& [rank, line] : lines_) line.flush(deadline);
  lines_.clear();
}

}  // namespace tutti::detail
