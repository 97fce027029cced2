// One thread at a time owns the engine, whatever several of them do with it, and nothing that is left for it is lost.

#include "lib/engine/ownership.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "lib/engine/engine.h"
#include "tests/support/signal.h"
#include "transport/reactor.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;

constexpr int thread_count = 4;
constexpr int rounds = 150;
constexpr auto hang_limit = 60s;  // that nothing needs

class Chore;

/// The owner's. Plain data where a second owner would be a race, which ThreadSanitizer sees; without it `inside` does.
class Mill final : public Pollable {
 public:
  explicit Mill(Engine& engine) : engine_(engine) {}

  /// While it lives this thread does what only the owner may.
  class Turn {
   public:
    explicit Turn(Mill& mill) : mill_(mill) {
      if (mill_.inside_.fetch_add(1) != 0) ++mill_.overlaps;
      ++mill_.turns_;
    }
    ~Turn() { mill_.inside_.fetch_sub(1); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Mill& mill_;
  };

  void grind(Chore& chore) {
    chores_.push_back(&chore);
    engine_.poll(*this);
  }
  bool progress() noexcept override;
  bool idle() const noexcept override { return chores_.empty(); }
  bool prepare_sleep() noexcept override { return chores_.empty(); }
  void awake() noexcept override {}

  /// A chore that waits until another thread opens its gate, and gates that were opened before their chore began.
  struct Gate {
    Chore* chore = nullptr;
    bool open = false;
  };
  std::array<std::array<Gate, rounds>, thread_count> gates;
  std::array<int, thread_count> last_begun{};  // number of the chore that a thread has submitted
  std::atomic<int> overlaps{0};
  std::atomic<int> disorders{0};
  std::atomic<int> finished{0};

 private:
  Engine& engine_;
  std::atomic<int> inside_{0};
  long turns_ = 0;
  std::vector<Chore*> chores_;
};

class Chore final : public Pending {
 public:
  enum class Kind { at_once, ground, gated };

  Chore(std::shared_ptr<Engine> engine, Mill& mill, Kind kind, int thread, int number)
      : Pending(std::move(engine)), thread_(thread), number_(number), mill_(mill), kind_(kind) {}

  void start() noexcept override {
    {
      const Mill::Turn turn{mill_};
      if (mill_.last_begun[index()] >= number_) ++mill_.disorders;
      mill_.last_begun[index()] = number_;
      if (kind_ == Kind::ground) return mill_.grind(*this);
      Mill::Gate& gate = mill_.gates[index()][static_cast<std::size_t>(gate_number)];
      if (kind_ == Kind::gated && !gate.open) {
        gate.chore = this;
        return;
      }
    }
    end();
  }
  /// Afterwards only its submitter may use it.
  void end() noexcept {
    ++mill_.finished;
    engine().finished(*this);
  }
  void expire() noexcept override {}
  void departed(std::span<const int> /*ranks*/) noexcept override {}
  void abort(std::string_view /*reason*/) noexcept override {}

  int passes = 0;  // of the mill, until it is done
  int gate_number = 0;

 private:
  void recycle() noexcept override { delete this; }
  std::size_t index() const { return static_cast<std::size_t>(thread_); }

  const int thread_;
  const int number_;
  Mill& mill_;
  const Kind kind_;
};

bool Mill::progress() noexcept {
  std::vector<Chore*> done;
  {
    const Turn turn{*this};
    std::erase_if(chores_, [&done](Chore* chore) {
      if (chore->passes-- > 0) return false;
      done.push_back(chore);
      return true;
    });
  }
  for (Chore* const chore : done) chore->end();
  return !done.empty();
}

/// What one thread does with the engine that it shares with others.
class Worker {
 public:
  Worker(std::shared_ptr<Engine> engine, Mill& mill, int thread, bool has_helper)
      : engine_(std::move(engine)),
        mill_(mill),
        thread_(thread),
        has_helper_(has_helper),
        random_(77U + static_cast<unsigned>(thread)) {}

  void work() {
    for (round_ = 0; round_ < rounds && !timed_out; ++round_) {
      run_tasks();
      own_for_a_moment();
      wait_for_one();
      wait_for_any();
      if (has_helper_) leave_to_helper();
      pass_gate();
    }
  }

  int submitted = 0;
  int tasks = 0;            // that had to run
  std::atomic<int> ran{0};  // and did
  bool timed_out = false;

 private:
  Chore& make(Chore::Kind kind, bool asynchronous = false) {
    auto* const chore = new Chore{engine_, mill_, kind, thread_, ++submitted};
    chore->asynchronous = asynchronous;
    chore->passes = static_cast<int>(random_() % 20);
    chore->gate_number = round_;
    return *chore;
  }
  Chore& submit(Chore::Kind kind, bool asynchronous = false) {
    Chore& chore = make(kind, asynchronous);
    engine_->submit(chore);
    return chore;
  }
  void wait(Chore& chore) {
    if (!engine_->wait(chore, Clock::now() + hang_limit)) timed_out = true;
    if (!timed_out) chore.release();
  }
  void note_task() {
    const Mill::Turn turn{mill_};
    ++ran;
  }

  void run_tasks() {
    tasks += 2;
    engine_->post([this] { note_task(); });
    if (!engine_->exclusively([this] { note_task(); }, Clock::now() + hang_limit)) timed_out = true;
  }
  void own_for_a_moment() {
    if (!engine_->try_own()) return;
    { const Mill::Turn turn{mill_}; }
    if (random_() % 2 == 0) return engine_->disown();
    Chore& chore = make(Chore::Kind::ground);
    engine_->submit_and_disown(chore);
    wait(chore);
  }
  void wait_for_one() { wait(submit(random_() % 2 == 0 ? Chore::Kind::at_once : Chore::Kind::ground)); }
  void wait_for_any() {
    Chore& first = submit(Chore::Kind::ground);
    Chore& second = submit(Chore::Kind::ground);
    const std::array<Pending*, 2> both{&first, &second};
    if (!engine_->wait_any(both, Clock::now() + hang_limit)) timed_out = true;
    wait(second);
    wait(first);
  }
  void leave_to_helper() {
    Chore& chore = submit(Chore::Kind::ground, true);
    if (random_() % 2 == 0) return wait(chore);
    chore.release();  // the helper ends it
  }
  /// Each opens the next one's gate before it waits at its own: some own the engine meanwhile, and sleep.
  void pass_gate() {
    Chore& own = submit(Chore::Kind::gated);
    ++tasks;
    engine_->post([this, next = static_cast<std::size_t>((thread_ + 1) % thread_count), round = round_] {
      note_task();
      Mill::Gate& gate = mill_.gates[next][static_cast<std::size_t>(round)];
      gate.open = true;
      if (gate.chore) gate.chore->end();
    });
    wait(own);
  }

  const std::shared_ptr<Engine> engine_;
  Mill& mill_;
  const int thread_;
  const bool has_helper_;
  std::mt19937 random_;
  int round_ = 0;
};

void stress(Patience engine_patience, bool has_helper) {
  const auto engine = std::make_shared<Engine>(engine_patience);
  Mill mill{*engine};
  if (has_helper) engine->get_helper();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int thread = 0; thread < thread_count; ++thread)
    workers.push_back(std::make_unique<Worker>(engine, mill, thread, has_helper));
  {
    std::vector<std::jthread> threads;
    for (const auto& worker : workers) threads.emplace_back([&worker] { worker->work(); });
  }
  const auto submitted = [&] {
    int all = 0;
    for (const auto& worker : workers) all += worker->submitted;
    return all;
  };
  const auto deadline = Clock::now() + hang_limit;
  while (mill.finished < submitted() && Clock::now() < deadline) std::this_thread::yield();
  engine->stop();
  CHECK(mill.finished == submitted());
  CHECK(mill.overlaps == 0);
  CHECK(mill.disorders == 0);
  for (const auto& worker : workers) {
    CHECK(!worker->timed_out);
    CHECK(worker->ran == worker->tasks);
  }
}

constexpr Patience sleeps_at_once{.spins = 0, .yields = 0}, spins_first{.spins = 50, .yields = 5};

TEST_CASE("threads own, wait for and hand over an engine, and one at a time has it") {
  stress(sleeps_at_once, false);
  stress(spins_first, false);
}

TEST_CASE("a helper takes its turns among them, and ends what nobody waits for") {
  stress(sleeps_at_once, true);
  stress(spins_first, true);
}

TEST_CASE("a thread whose task throws gives up the engine, and other threads and later tasks get it") {
  Engine engine{spins_first};
  const auto throws = [] { throw std::bad_alloc{}; };
  CHECK_THROWS_AS(engine.exclusively(throws), std::bad_alloc);
  CHECK_THROWS_AS(engine.post(throws), std::bad_alloc);
  CHECK(!engine.is_owned_here());
  int ran = 0;
  std::jthread{[&] { engine.exclusively([&] { ++ran; }, Clock::now() + hang_limit); }}.join();
  CHECK(ran == 1);
}

TEST_CASE("what a task throws that another thread runs goes to the thread that waits for it") {
  transport::Reactor reactor;
  Ownership ownership{reactor};
  testing::Signal owned;
  bool ran = false;  // the owner's
  std::jthread owner{[&] {
    if (ownership.try_own()) owned.give();
    const auto end = Clock::now() + hang_limit;
    while (!ran && Clock::now() < end)
      ownership.take_mail([](Pending&) {},
                          [&ran](const auto& task) {
                            task();
                            ran = true;
                          });
    const Ownership::Lock lock = ownership.lock();
    ownership.leave();
  }};
  owned.await();
  Ownership::Lock lock = ownership.lock();
  REQUIRE(!ownership.own_or_ask());
  const auto throws = [] { throw std::bad_alloc{}; };
  CHECK_THROWS_AS(ownership.run_by_owner(lock, throws, Clock::now() + hang_limit), std::bad_alloc);
}

}  // namespace
}  // namespace tutti::detail
