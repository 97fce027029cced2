// The runners of several nodes agree on the end of a job through keys of its store:
//
//   shape       nodes and ranks of each, set by node 0 and compared by the others
//   node/K      host and process of the runner of node K
//   beat/K      a counter that this runner increments while it lives
//   well/A/K    all ranks of node K have succeeded in attempt A
//   outcome/A   "CODE NODE RESTARTS TEXT", set once: by the first failure, or by the last node that succeeded
//   lost/A/N    the Nth rank that failed in attempt A without ending it, as in outcome/A
//   left/K      the runner of node K is done with the store
//
// A request may be sent twice, over a second connection if the first was lost: only heartbeats are counters.

#include "cli/run/multi_node.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <sstream>
#include <utility>

#include "cli/base/exit_codes.h"
#include "lib/base/host.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto beat_interval = 1s;
constexpr auto silence_limit = 15s;
constexpr auto answer_limit = 5s;
constexpr const char* no_answer = "the store of the job does not answer";

std::string encode(const JobOutcome& outcome) {
  return fmt::format("{} {} {} {}", outcome.exit_code, outcome.node, outcome.restarts ? 1 : 0, outcome.text);
}

JobOutcome decode(const std::string& value) {
  std::istringstream in{value};
  JobOutcome outcome;
  in >> outcome.exit_code >> outcome.node >> outcome.restarts;
  in.get();
  std::getline(in, outcome.text);
  return outcome;
}

std::string outcome_key(int attempt) { return fmt::format("outcome/{}", attempt); }

void set_outcome(Store& store, int attempt, const JobOutcome& outcome) {
  const JobOutcome first = decode(store.compare_set(outcome_key(attempt), "", encode(outcome)));
  if (first.restarts && !outcome.restarts) store.compare_set(outcome_key(attempt + 1), "", encode(outcome));
}

std::string node_key(int node) { return fmt::format("node/{}", node); }

std::shared_ptr<Store> part_of(const std::string& id, const std::shared_ptr<Store>& store) {
  return prefix_store("tutti-run/" + id, store);
}

std::string this_process() { return fmt::format("host {}, pid {}", host_name(), ::getpid()); }

}  // namespace

JobOutcome JobOutcome::beyond(int max_lost) const {
  JobOutcome last = *this;
  last.text += fmt::format(", one more than the {} that may be lost", max_lost);
  return last;
}

Agreement::Agreement(const Job& job, const std::string& id, StoreAccess access)
    : nodes_(job.nodes),
      node_(job.node),
      id_(id),
      access_(std::move(access)),
      goodbye_(job.kill_grace + 5s),
      store_(open(answer_limit, answer_limit)),
      watched_(open(answer_limit, beat_interval)),
      heard_(std::chrono::steady_clock::now()),
      signs_(static_cast<std::size_t>(job.nodes)),
      max_lost_(job.max_lost),
      ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  say_hello(job);
  speaker_ = std::jthread{[this](const std::stop_token& stop) { speak(stop); }};
  watcher_ = std::jthread{[this](const std::stop_token& stop) { watch(stop); }};
}

std::shared_ptr<Store> Agreement::open(std::chrono::milliseconds patience, std::chrono::milliseconds limit) const {
  const std::shared_ptr<Store> store = access_.join(patience);
  store->set_timeout(limit);  // for every request; a view's timeout bounds only its waits
  return part_of(id_, store);
}

Agreement::~Agreement() = default;

void Agreement::say_hello(const Job& job) {
  std::string mine = fmt::format("{} nodes with {} ranks each", job.nodes, job.ranks_here);
  if (job.max_lost > 0) mine += fmt::format(" of which {} may be lost", job.max_lost);
  if (job.max_restarts > 0) mine += fmt::format(" and up to {} restarts", job.max_restarts);
  if (node_ == 0) store_->set("shape", mine);
  const std::string expected = store_->get("shape");
  if (expected != mine) {
    const std::string text = fmt::format("this node was told {}, node 0 {}", mine, expected);
    set_outcome(*store_, 0, {exit_usage, text, node_});  // the job cannot become complete
    throw Error(ErrorCode::invalid_argument,
                fmt::format("run: {}; give the same --nnodes, -n, --max-lost and --max-restarts everywhere", text));
  }
  const std::string me = this_process();
  const std::string holder = store_->compare_set(node_key(node_), "", me);
  if (holder != me) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("run: --node-rank {} is taken by another tutti run ({}); give each node its own, from 0 to {}",
                    node_, holder, nodes_ - 1));
  }
}

bool Agreement::is_past(const std::shared_ptr<Store>& store, const std::string& id, int node) {
  const std::shared_ptr<Store> keys = part_of(id, store);
  const auto has = [&keys](const std::string& key) { return keys->check({&key, 1}); };
  if (!has(node_key(node))) return false;
  for (int attempt = 0; has(outcome_key(attempt)); ++attempt)
    if (!decode(keys->get(outcome_key(attempt))).restarts) return true;
  return false;
}

bool Agreement::insist(const Word& word) {
  const auto give_up = std::chrono::steady_clock::now() + silence_limit;
  for (;;) {
    try {
      word(*store_);
      return true;
    } catch (const Error&) {
      if (leaving_ || replaced_ || std::chrono::steady_clock::now() > give_up || access_.is_over()) return false;
    }
    try {
      store_ = open(answer_limit, answer_limit);
    } catch (const Error&) {
      continue;  // the old connection fails again, at once
    }
  }
}

void Agreement::say(int attempt, Word word, const JobOutcome& otherwise) {
  const std::lock_guard lock{mutex_};
  next_word_ = [this, attempt, word = std::move(word), otherwise] {
    lost_ = !insist(word) && !replaced_;
    if (lost_) conclude(attempt, otherwise);
  };
  replaced_ = true;
  word_came_.notify_all();
}

void Agreement::speak(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock{mutex_};
    if (!word_came_.wait(lock, stop, [this] { return next_word_ != nullptr; })) return;
    const auto word = std::exchange(next_word_, nullptr);
    replaced_ = false;
    lock.unlock();
    word();
  }
}

bool Agreement::claim(Store& store, int attempt, int max_lost, const std::vector<JobOutcome>& lost) {
  for (const JobOutcome& one : lost) {
    bool entered = false;
    for (int place = 0; place < max_lost && !entered; ++place)
      entered = store.compare_set(fmt::format("lost/{}/{}", attempt, place), "", encode(one)) == encode(one);
    if (entered) continue;
    set_outcome(store, attempt, one.beyond(max_lost));
    return false;
  }
  return true;
}

void Agreement::lost(const JobOutcome& outcome) {
  lost_here_.push_back(outcome);
  say(attempt_,
      [attempt = attempt_, most = max_lost_, lost = lost_here_](Store& store) { claim(store, attempt, most, lost); },
      {1, no_answer, 0});
}

void Agreement::all_well_here() {
  say(attempt_,
      [this, attempt = attempt_, lost = lost_here_](Store& store) {
        if (!claim(store, attempt, max_lost_, lost)) return;
        store.set(fmt::format("well/{}/{}", attempt, node_), "");
        std::vector<std::string> all;
        for (int node = 0; node < nodes_; ++node) all.push_back(fmt::format("well/{}/{}", attempt, node));
        if (store.check(all)) set_outcome(store, attempt, {});
      },
      {1, no_answer, 0});
}

void Agreement::failed(const JobOutcome& outcome) {
  JobOutcome here = outcome;  // the others notice that the store, or this runner's heartbeat, is missing
  here.restarts = false;
  say(
      attempt_, [attempt = attempt_, outcome](Store& store) { set_outcome(store, attempt, outcome); }, here);
}

void Agreement::begin_attempt() {
  lost_here_.clear();
  const std::lock_guard lock{mutex_};
  ++attempt_;
  outcome_ = gone_;
  if (!outcome_) {
    eventfd_t count = 0;
    ::eventfd_read(ready_.get(), &count);
  }
  next_attempt_.notify_all();
}

std::optional<JobOutcome> Agreement::outcome() {
  const std::lock_guard lock{mutex_};
  return outcome_;
}

void Agreement::leave() {
  leaving_ = true;
  speaker_.request_stop();
  speaker_.join();  // when it has told what there is to tell
  if (lost_) return;
  try {
    store_->set(fmt::format("left/{}", node_), "");
    if (node_ != 0) return;
    std::vector<std::string> awaited;
    for (int node = 1; node < nodes_; ++node) {
      const std::string key = node_key(node);
      if (node != silent_ && store_->check({&key, 1})) awaited.push_back(fmt::format("left/{}", node));
    }
    store_->set_timeout(goodbye_);
    store_->wait(awaited);
  } catch (const Error&) {
    return;  // the nodes of the missing runners are lost
  }
}

void Agreement::watch(const std::stop_token& stop) {
  for (bool goes_on = true; goes_on && !stop.stop_requested();) {
    std::unique_lock lock{mutex_};
    const int attempt = attempt_;
    lock.unlock();
    await_outcome(stop, attempt);
    goes_on = show_life(attempt);
  }
}

void Agreement::await_outcome(const std::stop_token& stop, int attempt) {
  {
    std::unique_lock lock{mutex_};
    if (attempt_ != attempt) return;
    if (outcome_) {
      next_attempt_.wait_for(lock, stop, beat_interval, [&] { return attempt_ != attempt; });
      return;
    }
  }
  try {
    const std::string key = outcome_key(attempt);
    watched_->wait({&key, 1});
    conclude(attempt, decode(watched_->get(key)));
  } catch (const Error&) {
    // Either it is time for a heartbeat, or the store is gone, which the next request will show.
  }
}

bool Agreement::show_life(int attempt) {
  try {
    watched_->add(fmt::format("beat/{}", node_), 1);
    heard_ = std::chrono::steady_clock::now();
    if (const auto end = silent_node()) {
      silent_ = end->node;
      set_outcome(*watched_, attempt, *end);
    }
    return true;
  } catch (const Error& error) {
    return may_return(error, attempt);
  }
}

bool Agreement::may_return(const Error& why, int attempt) {
  if (access_.is_over()) {
    give_up({1, fmt::format("the store of the job is gone ({})", why.what()), 0}, attempt);
    return false;
  }
  if (std::chrono::steady_clock::now() - heard_ > silence_limit) {
    give_up({1, fmt::format("the store of the job has not answered for {} s", silence_limit.count()), 0}, attempt);
    return false;
  }
  try {
    watched_ = open(beat_interval, beat_interval);
  } catch (const Error&) {
    // The next request fails on the old connection and leads here again.
  }
  return true;
}

void Agreement::give_up(const JobOutcome& outcome, int attempt) {
  {
    const std::lock_guard lock{mutex_};
    gone_ = outcome;
  }
  conclude(attempt, outcome);
}

std::optional<JobOutcome> Agreement::silent_node() {
  if (node_ != 0) return std::nullopt;  // one observer is enough; if its node dies, so does the store
  const auto now = std::chrono::steady_clock::now();
  for (int node = 1; node < nodes_; ++node) {
    const std::string key = node_key(node);
    Sign& sign = signs_[static_cast<std::size_t>(node)];
    if (!watched_->check({&key, 1})) {
      if (now - begin_ < access_.patience) continue;
      return JobOutcome{exit_library,
                        fmt::format("tutti run has not come within {:g} s (TUTTI_TIMEOUT); start it there, too, with "
                                    "--node-rank {}",
                                    std::chrono::duration<double>(access_.patience).count(), node),
                        node};
    }
    const std::int64_t beat = watched_->add(fmt::format("beat/{}", node), 0);
    if (beat != sign.beat) sign = {beat, now};
    if (now - sign.since > silence_limit)
      return JobOutcome{1, fmt::format("tutti run has not been heard of for {} s", silence_limit.count()), node};
  }
  return std::nullopt;
}

void Agreement::conclude(int attempt, const JobOutcome& outcome) {
  const std::lock_guard lock{mutex_};
  if (attempt != attempt_ || outcome_) return;
  outcome_ = outcome;
  ::eventfd_write(ready_.get(), 1);
}

}  // namespace tutti::cli
