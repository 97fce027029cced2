#include "lib/observe/black_box.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "lib/base/system_calls.h"
#include "lib/observe/black_box_reader.h"
#include "tests/lib/observe/boxed.h"
#include "tests/support/scratch.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using black_box::Box;
using black_box::CallRecord;
using black_box::OperationRecord;
using black_box::Snapshot;
using black_box::State;

TEST_CASE("a box says who its rank is and what that does, from the start of an operation to its end") {
  Boxed made;
  REQUIRE(made.box);
  made.box->add_group(14, 4, 2);
  CallRecord call = call_number(5);
  black_box::Flight flight = made.box->begin(call);
  flight.progress(3, 4096);
  Snapshot seen = made.read();
  CHECK(seen.used);
  CHECK(seen.rank == 2);
  CHECK(seen.size == 4);
  CHECK(seen.pid == ::getpid());
  CHECK(seen.host == "n07");
  CHECK(seen.job == "job/1");
  REQUIRE(seen.groups.size() == 1);
  CHECK(seen.groups[0].group == 14);
  CHECK(seen.groups[0].rank == 2);
  REQUIRE(seen.entries.size() == 1);
  CHECK(seen.entries[0].number == 1);
  CHECK(seen.entries[0].state == State::started);
  CHECK(seen.entries[0].call.operation == 5);
  CHECK(seen.entries[0].call.count == 15);
  CHECK(std::string{seen.entries[0].call.algorithm.data()} == "ring");
  CHECK(seen.entries[0].parts_done == 3);
  CHECK(seen.entries[0].bytes == 4096);

  flight.land(nullptr);
  seen = made.read();
  CHECK(seen.entries[0].state == State::done);
  CHECK(seen.entries[0].ended > 0);
  CHECK(seen.entries[0].ended <= seen.taken);

  flight = made.box->begin(call);
  const Error error{ErrorCode::peer_lost, "rank 3 is gone", 3, 5};
  flight.land(&error);
  seen = made.read();
  REQUIRE(seen.entries.size() == 2);
  CHECK(seen.entries[1].state == State::failed);
  CHECK(seen.entries[1].failure == "rank 3 is gone");
  CHECK(seen.entries[1].culprit == 3);
  CHECK(seen.entries[1].code == static_cast<std::uint32_t>(ErrorCode::peer_lost));
}

TEST_CASE("a box keeps the last operations, and a late word about an older one spoils nothing") {
  Boxed made;
  CallRecord call = call_number(1);
  black_box::Flight first = made.box->begin(call);
  for (std::uint64_t n = 2; n <= 600; ++n) {
    call = call_number(n);
    made.box->begin(call).land(nullptr);
  }
  first.progress(8, 8);
  const Error error{ErrorCode::timeout, "late"};
  first.land(&error);
  const Snapshot seen = made.read();
  REQUIRE(seen.entries.size() == black_box::record_count);
  for (std::size_t i = 0; i < seen.entries.size(); ++i) {
    CHECK(seen.entries[i].number == 601 - black_box::record_count + i);
    CHECK(seen.entries[i].call.operation == 601 - black_box::record_count + i);
    CHECK(seen.entries[i].state == State::done);
    CHECK(seen.entries[i].failure.empty());
  }
}

TEST_CASE("a long failure is cut, not lost") {
  Boxed made;
  CallRecord call = call_number(1);
  const Error error{ErrorCode::system, std::string(5000, 'x')};
  made.box->begin(call).land(&error);
  CHECK(made.read().entries[0].failure == std::string(black_box::text_words * 8, 'x'));
}

TEST_CASE("a reader never sees parts of two operations while the rank works") {
  Boxed made;
  std::atomic<bool> stop{false};
  std::thread rank([&] {
    for (std::uint64_t n = 1; !stop.load(); ++n) {
      CallRecord call = call_number(n);
      black_box::Flight flight = made.box->begin(call);
      flight.progress(static_cast<std::uint32_t>(n), n);
      flight.land(nullptr);
    }
  });
  std::size_t seen = 0;
  std::uint64_t last = 0;
  for (int round = 0; round < 300 || last < 2 * black_box::record_count; ++round) {
    const Snapshot snapshot = made.read();
    for (const OperationRecord& entry : snapshot.entries) {
      ++seen;
      last = entry.number;
      const std::uint64_t n = entry.number;
      const bool whole = entry.call.operation == n && entry.call.group == 7 * n && entry.call.count == 3 * n &&
                         entry.call.root == static_cast<std::int32_t>(n);
      const bool ended = entry.state == State::started || (entry.parts_done == n && entry.bytes == n);
      if (!whole || !ended) FAIL("operation ", n, " was seen as ", entry.call.operation);
    }
  }
  stop = true;
  rank.join();
  CHECK(seen > 0);
}

TEST_CASE("a record that was never finished, because its rank was killed, is left out") {
  Boxed made;
  for (std::uint64_t n = 1; n <= 3; ++n) {
    CallRecord call = call_number(n);
    made.box->begin(call).land(nullptr);
  }
  void* where = ::mmap(nullptr, sizeof(black_box::Memory), PROT_READ | PROT_WRITE, MAP_SHARED, made.memory.get(), 0);
  REQUIRE(where != MAP_FAILED);
  static_cast<black_box::Memory*>(where)->records[1].ticket.store(2 * (black_box::record_count + 2) - 1);
  const Snapshot seen = made.read();
  ::munmap(where, sizeof(black_box::Memory));
  REQUIRE(seen.entries.size() == 2);
  CHECK(seen.entries[0].number == 1);
  CHECK(seen.entries[1].number == 3);
}

TEST_CASE("the launcher reads what a rank did that was killed by SIGKILL") {
  const Descriptor memory = black_box::make_memory();
  CHECK_FALSE(black_box::read(memory, "unused").used);
  const pid_t rank = ::fork();
  if (rank == 0) {
    ::setenv("TUTTI_BLACK_BOX_FD", std::to_string(memory.get()).c_str(), 1);
    std::string trouble;
    const auto box = Box::open(owner, trouble);
    CallRecord call = call_number(42);
    black_box::Flight flight = box->begin(call);
    flight.progress(2, 99);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(rank, &status, 0) == rank);
  REQUIRE(WIFSIGNALED(status));
  const Snapshot seen = black_box::read(memory, "the dead rank's");
  CHECK(seen.pid == rank);
  REQUIRE(seen.entries.size() == 1);
  CHECK(seen.entries[0].call.operation == 42);
  CHECK(seen.entries[0].state == State::started);
  CHECK(seen.entries[0].parts_done == 2);
}

TEST_CASE("a second box of a process does not write into the first") {
  Boxed made;
  CallRecord call = call_number(1);
  made.box->begin(call).land(nullptr);
  std::string trouble;
  auto second = Box::open(owner, trouble);
  REQUIRE(second);
  call = call_number(2);
  second->begin(call).land(nullptr);
  CHECK(made.read().entries.size() == 1);

  // Once the first has gone the next one goes on where it was.
  second.reset();
  made.box.reset();
  made.box = Box::open(owner, trouble);
  made.box->begin(call).land(nullptr);
  CHECK(made.read().entries.size() == 2);
  CHECK(made.read().earlier == 1);
}

TEST_CASE("a launcher's box belongs to the first process that takes it, until that has gone") {
  const Descriptor memory = black_box::make_memory();
  const Setting setting{"TUTTI_BLACK_BOX_FD", std::to_string(memory.get())};
  std::array<int, 2> told{};
  std::array<int, 2> leave{};
  REQUIRE(::pipe(told.data()) == 0);
  REQUIRE(::pipe(leave.data()) == 0);
  const auto note = [](std::uint64_t number) {
    std::string trouble;
    const auto box = Box::open(owner, trouble);
    CallRecord call = call_number(number);
    if (box) box->begin(call).land(nullptr);
    return box != nullptr;
  };
  const pid_t first = ::fork();
  char byte = 0;
  if (first == 0) {
    ::close(leave[1]);
    std::string trouble;
    const auto box = Box::open(owner, trouble);
    CallRecord call = call_number(1);
    box->begin(call).land(nullptr);
    ::_exit(::write(told[1], &byte, 1) == 1 && ::read(leave[0], &byte, 1) == 0 ? 0 : 1);
  }
  REQUIRE(::read(told[0], &byte, 1) == 1);
  CHECK(note(2));  // in memory of its own
  CHECK(black_box::read(memory, "box").entries.size() == 1);
  CHECK(black_box::read(memory, "box").pid == first);
  for (const int end : {told[0], told[1], leave[0], leave[1]}) ::close(end);
  int status = 0;
  REQUIRE(::waitpid(first, &status, 0) == first);
  CHECK(status == 0);
  CHECK(note(3));
  CHECK(black_box::read(memory, "box").entries.size() == 2);
  CHECK(black_box::read(memory, "box").pid == ::getpid());
}

TEST_CASE("a descriptor that is no launcher's memory is left alone") {
  const auto untouched = [](const Descriptor& file) {
    const Setting setting{"TUTTI_BLACK_BOX_FD", std::to_string(file.get())};
    std::string trouble;
    const auto box = Box::open(owner, trouble);
    REQUIRE(box);  // of its own
    CallRecord call = call_number(1);
    box->begin(call).land(nullptr);
    std::array<char, 64> bytes{};
    REQUIRE(::pread(file.get(), bytes.data(), bytes.size(), 0) >= 0);
    CHECK(bytes == std::array<char, 64>{});
  };
  const Descriptor other(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(other.get(), sizeof(black_box::Memory)) == 0);
  REQUIRE(::fcntl(other.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  untouched(other);
  const Descriptor small(::memfd_create(black_box::memory_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(small.get(), 4096) == 0);
  untouched(small);
  const Descriptor loose(::memfd_create(black_box::memory_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(loose.get(), sizeof(black_box::Memory)) == 0);
  untouched(loose);
  for (const char* text : {"999", "-1", "2"}) {
    const Setting setting{"TUTTI_BLACK_BOX_FD", text};
    std::string trouble;
    CHECK(Box::open(owner, trouble) != nullptr);
  }
}

TEST_CASE("a reader survives whatever it is given") {
  const Folder folder;
  const std::string path = folder.name + "/box";
  std::mt19937_64 random(1);
  const auto write = [&](std::size_t bytes, bool right_header) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    std::vector<std::uint64_t> words(bytes / 8);
    for (std::uint64_t& word : words) word = random();
    if (right_header) words[0] = black_box::magic;
    if (right_header) words[1] = (words[1] & 0xffffffff00000000) | black_box::layout_version;
    REQUIRE(::write(file.get(), words.data(), bytes) == static_cast<ssize_t>(bytes));
    return file;
  };
  CHECK(error_of([&] { black_box::read(write(800, false), "x"); }).find("x is no black box: it has 800 bytes") == 0);
  CHECK(error_of([&] { black_box::read(write(sizeof(black_box::Memory), false), "x"); }) == "x is no black box");
  for (int round = 0; round < 20; ++round) {
    const Snapshot seen = black_box::read(write(sizeof(black_box::Memory), true), "x");
    CHECK(seen.entries.size() <= black_box::record_count);
    CHECK(seen.groups.size() <= black_box::group_count);
    for (const OperationRecord& entry : seen.entries) CHECK(entry.failure.size() <= black_box::text_words * 8);
  }
}

TEST_CASE("a box of another layout is refused, with what its version may be") {
  Boxed made;
  void* where = ::mmap(nullptr, sizeof(black_box::Memory), PROT_READ | PROT_WRITE, MAP_SHARED, made.memory.get(), 0);
  REQUIRE(where != MAP_FAILED);
  auto& memory = *static_cast<black_box::Memory*>(where);
  memory.layout.store(black_box::layout_version + 1);
  memory.version = {'9', '\n', '\x1b', 'c'};
  CHECK(error_of([&] { made.read(); }).find("of another version of tutti (9??c); read it with") != std::string::npos);
  ::munmap(where, sizeof(black_box::Memory));
}

TEST_CASE("collectives and messages of all kinds note what they do") {
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    std::vector<float> data(1000, 1.0F);
    comm.all_reduce(data, max, {.algorithm = "ring"});
    Communicator part = comm.subgroup({1, 0});
    if (comm.rank() == 0) part.send(data, 0, {.tag = 5});
    if (comm.rank() == 1) part.recv(data, 1, {.tag = 5});
    comm.barrier();
    std::vector<float> wrong(comm.rank() == 0 ? 10 : 20);
    CHECK(error_of([&] { comm.all_reduce(wrong, sum, {.algorithm = "ring"}); }) != "");
  });
  const Descriptor file(::open((folder.name + "/1").c_str(), O_RDONLY | O_CLOEXEC));
  const Snapshot seen = black_box::read(file, "1");
  REQUIRE(seen.groups.size() == 2);
  CHECK(seen.groups[1].rank == 0);
  REQUIRE(seen.entries.size() == 4);
  const OperationRecord& reduce = seen.entries[0];
  CHECK(reduce.call.collective == static_cast<std::uint8_t>(Collective::all_reduce));
  CHECK(reduce.call.operation == 1);
  CHECK(reduce.call.count == 1000);
  CHECK(reduce.call.type == static_cast<std::uint8_t>(DataType::f32));
  CHECK(reduce.call.op == static_cast<std::uint8_t>(max.kind()));
  CHECK(std::string{reduce.call.algorithm.data()} == "ring");
  CHECK(reduce.state == State::done);
  CHECK(reduce.parts_done == reduce.call.parts);
  CHECK(reduce.bytes == 8000);  // half sent and got, reduced; half sent and got, finished
  CHECK(reduce.ended >= reduce.call.started);
  const OperationRecord& receive = seen.entries[1];
  CHECK(receive.call.collective == black_box::receive);
  CHECK(receive.call.group == seen.groups[1].group);
  CHECK(receive.call.root == 1);
  CHECK(receive.call.tag == 5);
  CHECK(receive.bytes == 4000);
  CHECK(seen.entries[2].call.collective == static_cast<std::uint8_t>(Collective::barrier));
  CHECK(seen.entries[2].call.operation == 2);
  CHECK(seen.entries[3].state == State::failed);
  CHECK(seen.entries[3].failure.find("all_reduce #3") != std::string::npos);
}

TEST_CASE("a call whose op takes long is not noted as one that took no time") {
  using Clock = std::chrono::steady_clock;
  const Folder folder;
  const Setting setting{"TUTTI_BLACK_BOX", folder.name + "/%r"};
  run_ranks({.ranks = 2, .kind = Kind::shm}, [](Communicator& comm) {
    const auto slow = user_op<int>([](int a, int b) {
      for (const auto end = Clock::now() + std::chrono::milliseconds{40}; Clock::now() < end;) continue;
      return a + b;
    });
    std::vector<int> data(1, 1);
    comm.barrier();  // the next call finds a board
    comm.all_reduce(data, slow);
  });
  const Descriptor file(::open((folder.name + "/1").c_str(), O_RDONLY | O_CLOEXEC));
  const OperationRecord seen = black_box::read(file, "1").entries.at(1);
  CHECK(seen.ended - seen.call.started > 20'000'000);
}

}  // namespace
}  // namespace tutti::testing
