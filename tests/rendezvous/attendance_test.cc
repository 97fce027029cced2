// A rank's place in a rendezvous: who gets it, what becomes of it, and what the others hear when its rank goes.

#include "rendezvous/attendance.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>

#include "rendezvous/file_store.h"
#include "rendezvous/tcp_server.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::Attendance;
using rendezvous::open_file_store;
using rendezvous::TcpStoreServer;

/// A client's store of which the process can be killed: its connection ends, and nothing more is said.
class Mortal final : public Store {
 public:
  explicit Mortal(std::shared_ptr<Store> store) : store_(std::move(store)) { Store::set_timeout(patience); }
  void kill() { store_.reset(); }
  /// As a store of a program's own may, whose author did not read ours.
  void throw_number() { throws_number_ = true; }

  void set(std::string_view key, std::string_view value) override { alive().set(key, value); }
  std::string get(std::string_view key) override { return alive().get(key); }
  std::int64_t add(std::string_view key, std::int64_t delta) override { return alive().add(key, delta); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    if (throws_number_) throw 7;
    return alive().compare_set(key, expected, desired);
  }
  void wait(std::span<const std::string> keys) override { alive().wait(keys); }
  void wait_for(std::span<const std::string> keys, Milliseconds timeout) override { alive().wait_for(keys, timeout); }
  bool check(std::span<const std::string> keys) override { return alive().check(keys); }
  bool erase(std::string_view key) override { return alive().erase(key); }
  std::int64_t key_count() override { return alive().key_count(); }
  void append(std::string_view key, std::string_view value) override { alive().append(key, value); }
  std::vector<std::string> multi_get(std::span<const std::string> keys) override { return alive().multi_get(keys); }
  void multi_set(std::span<const KeyValue> pairs) override { alive().multi_set(pairs); }

 private:
  Store& alive() {
    if (!store_) throw Error{ErrorCode::rendezvous, "killed"};
    return *store_;
  }
  std::shared_ptr<Store> store_;
  bool throws_number_ = false;
};

/// One rank with a connection of its own.
class Rank {
 public:
  Rank(const TcpStoreServer& server, int rank, int size)
      : server_(&server),
        store_(std::make_shared<Mortal>(tcp_store(server.endpoint().host, server.endpoint().port, patience))),
        attendance_(std::make_unique<Attendance>(store_, rank, size, late())) {}
  Attendance* operator->() { return attendance_.get(); }

  /// Returns when the server has noticed.
  void kill() {
    const std::size_t before = server_->figures().connections;
    store_->kill();
    CHECK(eventually([&] { return server_->figures().connections < before; }));
    attendance_.reset();
  }

 private:
  const TcpStoreServer* server_;
  std::shared_ptr<Mortal> store_;
  std::unique_ptr<Attendance> attendance_;
};

using Values = std::vector<std::string>;

/// What body(rank) throws on each of these ranks.
std::vector<Error> errors_of(const std::vector<int>& ranks, const std::function<void(int)>& body) {
  std::vector<Error> errors(ranks.size(), Error{ErrorCode::system, ""});
  run_threads(static_cast<int>(ranks.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    errors[at] = error_of([&] { body(ranks[at]); });
  });
  return errors;
}

}  // namespace

TEST_CASE("a rank leaves although its store throws what is no exception of the library") {
  const auto store = std::make_shared<Mortal>(memory_store());
  auto attendance = std::make_unique<Attendance>(store, 0, 2, late());
  store->throw_number();
  attendance.reset();
}

TEST_CASE("a place that is taken is refused with the name of who has it") {
  const auto store = memory_store();
  const Attendance first{store, 0, 3, late()}, last{store, 2, 3, late()};
  const Error error = error_of([&] { Attendance(store, 2, 3, late()); });
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(error.rank() == 2);
  CHECK(contains(error.what(), "rank 2 is already taken by process " + std::to_string(::getpid())));
  CHECK_NOTHROW(Attendance(store, 1, 3, late()));
}

TEST_CASE("a rank that reaches the store after its deadline takes no place") {
  const auto store = memory_store();
  const Error error = error_of([&] { Attendance(store, 1, 2, Clock::now() - 1ms); });
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(error.rank() == 1);
  CHECK(contains(error.what(), "rank 1 reached the store after its deadline"));
  CHECK_NOTHROW(Attendance(store, 1, 2, late()));
}

TEST_CASE("of several who claim a place at once exactly one gets it") {
  const auto store = memory_store();
  std::atomic<int> refused{0};
  std::atomic<int> tried{0};
  run_threads(6, [&](int) {
    std::unique_ptr<Attendance> mine;
    refused += error_of([&] { mine = std::make_unique<Attendance>(store, 0, 2, late()); }).rank() == 0 ? 1 : 0;
    ++tried;
    eventually([&] { return tried == 6; });
  });
  CHECK(refused == 5);
}

TEST_CASE("ranks that were told different sizes do not meet, nor is there a rank beyond the size") {
  const auto store = memory_store();
  const Attendance first{store, 0, 4, late()};
  const Error error = error_of([&] { Attendance(store, 1, 8, late()); });
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(contains(error.what(), "rank 1 was told that there are 8 ranks, but another was told 4"));
  for (const int rank : {4, -1})
    CHECK(error_of([&] { Attendance(store, rank, 4, late()); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("a restart under another prefix does not see the keys of the run before") {
  const auto store = memory_store();
  for (const char* attempt : {"attempt_0", "attempt_1"}) {
    Attendance alone{prefix_store(attempt, store), 0, 1, late()};
    CHECK(alone.exchange_rank_infos(attempt) == Values{attempt});
    alone.complete();
  }
}

TEST_CASE("a rank killed while others still gather is followed by the next process with its number") {
  for (const int victim : {0, 1}) {
    CAPTURE(victim);
    const TcpStoreServer server{{"127.0.0.1", 0}};
    std::vector<Rank> ranks;
    for (const int rank : {0, 1}) ranks.emplace_back(server, rank, 3);
    const auto at = static_cast<std::size_t>(victim);
    ranks[at]->store().set("rank_info/" + std::to_string(victim), "=old");
    CHECK(ranks[at]->store().get("rank_info/" + std::to_string(victim)) == "=old");
    ranks[at].kill();
    ranks[at] = Rank{server, victim, 3};
    ranks.emplace_back(server, 2, 3);
    run_threads(3, [&](int rank) {
      Attendance& mine = *ranks[static_cast<std::size_t>(rank)].operator->();
      CHECK(mine.exchange_rank_infos("new " + std::to_string(rank)) == Values{"new 0", "new 1", "new 2"});
      CHECK(mine.exchange_accesses("") == Values{"", "", ""});
      mine.complete();
    });
  }
}

TEST_CASE("a rank that waits in vain for one that had come and was killed is told so") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  Rank second{server, 1, 2};
  second.kill();
  const auto store = tcp_store(server.endpoint().host, server.endpoint().port, patience);
  Attendance first{store, 0, 2, Clock::now() + 60ms};
  const Error error = error_of([&] { first.exchange_rank_infos(""); });
  CHECK(error.rank() == 1);
  CHECK(contains(error.what(), "Rank 1 had come, process " + std::to_string(::getpid())));
}

TEST_CASE("a rank that gives up waiting is not blamed by those that wait on for others") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  const auto store = [&] { return tcp_store(server.endpoint().host, server.endpoint().port, patience); };
  { const Attendance first{store(), 0, 4, late()}; }
  Attendance second{store(), 1, 4, Clock::now() + 60ms};
  const Error error = error_of([&] { second.exchange_rank_infos(""); });
  CHECK(error.rank() == 2);
  CHECK(contains(error.what(), "for ranks 2, 3."));
}

TEST_CASE("when one is killed that others have met, all hear of it, and all meet anew at once") {
  for (const int which : {0, 1, 2, 3}) {
    const int victim = which % 2 == 0 ? 0 : 2;
    const bool later = which >= 2;  // in the third round
    CAPTURE(victim);
    CAPTURE(later);
    const TcpStoreServer server{{"127.0.0.1", 0}};
    std::vector<Rank> ranks;
    for (const int rank : {0, 1, 2}) ranks.emplace_back(server, rank, 3);
    run_threads(3, [&](int rank) {
      Attendance& mine = *ranks[static_cast<std::size_t>(rank)].operator->();
      mine.exchange_rank_infos("x");
      if (later) mine.exchange_accesses("y");
    });
    ranks[static_cast<std::size_t>(victim)].kill();
    const std::vector<int> others = victim == 0 ? std::vector{1, 2} : std::vector{0, 1};
    for (const Error& error : errors_of(others, [&](int rank) {
           Attendance& mine = *ranks[static_cast<std::size_t>(rank)].operator->();
           later ? mine.exchange_fallbacks("") : mine.exchange_accesses("");
         })) {
      CHECK(error.code() == ErrorCode::rendezvous);
      CHECK(error.rank() == victim);
      CHECK(contains(error.what(), "rank " + std::to_string(victim) + " (process " + std::to_string(::getpid())));
    }
    ranks.clear();
    for (const int rank : {0, 1, 2}) ranks.emplace_back(server, rank, 3);
    run_threads(3, [&](int rank) {
      CHECK(ranks[static_cast<std::size_t>(rank)]->exchange_rank_infos(std::to_string(rank)) == Values{"0", "1", "2"});
    });
  }
}

TEST_CASE("a process that comes after the others met its predecessor waits for them in the next attempt") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  std::vector<Rank> ranks;
  for (const int rank : {0, 1}) ranks.emplace_back(server, rank, 2);
  run_threads(2, [&](int rank) { ranks[static_cast<std::size_t>(rank)]->exchange_rank_infos("x"); });
  ranks[1].kill();
  Rank successor{server, 1, 2};
  CHECK(error_of([&] { ranks[0]->exchange_accesses(""); }).rank() == 1);
  ranks[0] = Rank{server, 0, 2};
  run_threads(2, [&](int rank) {
    CHECK((rank == 0 ? ranks[0] : successor)->exchange_rank_infos(std::to_string(rank)) == Values{"0", "1"});
  });
}

TEST_CASE("in any store a rank that ends by an error gives its place back, and tells who has met it") {
  const TempFolder folder;
  const auto in_memory = memory_store();
  for (const bool file : {false, true}) {
    CAPTURE(file);
    const auto open = [&] { return file ? open_file_store(folder.file("store"), 2, 3s) : in_memory; };
    Attendance first{open(), 0, 2, late()};
    CHECK(contains(error_of([&] { Attendance(open(), 0, 2, late()); }).what(), "already taken"));
    open();
    { const Attendance gives_up{open(), 1, 2, late()}; }
    auto second = std::make_unique<Attendance>(open(), 1, 2, late());
    run_threads(2, [&](int rank) { (rank == 0 ? first : *second).exchange_rank_infos("x"); });
    second.reset();
    CHECK(error_of([&] { first.exchange_accesses(""); }).rank() == 1);
  }
  CHECK(folder.is_empty());
}

TEST_CASE("when a rank declines, the others fail with its reason at once, and all may meet anew") {
  const TcpStoreServer server{any_port};
  const auto in_memory = memory_store();
  const auto over_tcp = [&] { return tcp_store(server.endpoint().host, server.endpoint().port, patience); };
  for (const std::string job : {"memory 0", "memory 1", "tcp 0", "tcp 1"}) {
    CAPTURE(job);
    const int culprit = job.ends_with('1') ? 1 : 0;
    for (const bool declines : {true, false}) {
      run_threads(3, [&](int rank) {
        Attendance attendance{prefix_store(job, job.starts_with('m') ? in_memory : over_tcp()), rank, 3, late()};
        if (!declines) {
          CHECK(attendance.exchange_rank_infos("x") == Values{"x", "x", "x"});
          return;
        }
        if (rank == culprit) return attendance.decline({ErrorCode::invalid_argument, "TUTTI_X is wrong"});
        const Error error = error_of([&] { attendance.exchange_rank_infos("x"); });
        CHECK(error.code() == ErrorCode::rendezvous);
        CHECK(error.rank() == culprit);
        CHECK_MESSAGE(contains(error.what(), "cannot take part: TUTTI_X is wrong"), error.what());
        CHECK_MESSAGE(!contains(error.what(), "has ended"), error.what());
      });
    }
  }
}

TEST_CASE("the others learn why a rank declines also if the store ends with rank 0, which has learnt it first") {
  const auto in_memory = memory_store();
  run_threads(3, [&](int rank) {
    const auto store = std::make_shared<Mortal>(in_memory);
    Attendance attendance{store, rank, 3, late()};
    if (rank == 2) return attendance.decline({ErrorCode::invalid_argument, "TUTTI_X is wrong"});
    if (rank == 1) store->throw_number();  // once it has read what was said
    const Error error = error_of([&] { attendance.exchange_rank_infos("x"); });
    CHECK_MESSAGE(contains(error.what(), "cannot take part: TUTTI_X is wrong"), error.what());
  });
}

TEST_CASE("a rank that has declined may come again before the others, which then know nothing of it") {
  const auto store = memory_store();
  Attendance{store, 1, 2, late()}.decline({ErrorCode::invalid_argument, "TUTTI_X is wrong"});
  Attendance again{store, 1, 2, late()}, other{store, 0, 2, late()};
  const std::string published = "0/rank_info/1";
  CHECK_FALSE(store->check({&published, 1}));
  run_threads(2, [&](int rank) { CHECK((rank == 0 ? other : again).exchange_rank_infos("x") == Values{"x", "x"}); });
}

TEST_CASE("a third round brings what was published for it") {
  const auto store = memory_store();
  run_threads(3, [&](int rank) {
    Attendance mine{store, rank, 3, late()};
    mine.exchange_rank_infos("x");
    CHECK(mine.exchange_accesses("y" + std::to_string(rank)) == Values{"y0", "y1", "y2"});
    CHECK(mine.exchange_fallbacks("z" + std::to_string(rank)) == Values{"z0", "z1", "z2"});
    mine.complete();
  });
}

TEST_CASE("a store that outlives a job serves the next one under the same name, once all have left") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  for (int job = 0; job < 3; ++job) {
    std::vector<Rank> ranks;
    for (const int rank : {0, 1}) ranks.emplace_back(server, rank, 2);
    run_threads(2, [&](int rank) {
      Attendance& mine = *ranks[static_cast<std::size_t>(rank)].operator->();
      CHECK(mine.exchange_rank_infos(std::to_string(job)) == Values(2, std::to_string(job)));
      mine.exchange_accesses("");
      mine.complete();
    });
    CHECK(contains(error_of([&] { Rank(server, 1, 2); }).what(), "already taken"));
    for (Rank& rank : ranks) rank.kill();
  }
}

TEST_CASE("a store that outlives a job serves one of another size next, once all have left") {
  const TcpStoreServer server{{"127.0.0.1", 0}};
  const auto meet = [](std::vector<Rank>& ranks) {
    run_threads(static_cast<int>(ranks.size()), [&](int rank) {
      Attendance& mine = *ranks[static_cast<std::size_t>(rank)].operator->();
      mine.exchange_rank_infos("");
      mine.complete();
    });
  };
  std::vector<Rank> first;
  for (int rank = 0; rank < 2; ++rank) first.emplace_back(server, rank, 2);
  meet(first);
  first.pop_back();  // rank 0 is still there
  CHECK(contains(error_of([&] { Rank(server, 0, 3); }).what(), "another was told 2"));
  first.clear();
  std::vector<Rank> second;
  for (int rank = 0; rank < 3; ++rank) second.emplace_back(server, rank, 3);
  meet(second);
}

}  // namespace tutti::testing
