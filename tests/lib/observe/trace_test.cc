#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "algorithms/board_program.h"
#include "lib/observe/trace/file.h"
#include "lib/observe/trace/recorder.h"
#include "lib/observe/trace/snapshot.h"
#include "tests/support/allocations.h"
#include "tests/support/scratch.h"
#include "tests/support/trace_file.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using trace::Kind;
using trace::Record;
using trace::Recorder;

const Recorder::Owner owner{2, 4, "n07"};

/// A file for a trace of few records.
struct Traced {
  Folder folder;
  std::string path = folder.name + "/t.json";
  Setting file{"TUTTI_TRACE_FILE", path};
  Setting records{"TUTTI_TRACE_RECORDS", "16"};

  std::unique_ptr<Recorder> open() const {
    std::string trouble;
    auto recorder = Recorder::open(owner, algorithms::BoardReaders{}, trouble);
    REQUIRE(recorder);
    return recorder;
  }
  std::vector<TraceEvent> read() const { return read_trace(path); }
};

Record call_number(std::uint32_t n, Kind kind = Kind::call) {
  const std::int64_t now = trace::ticks();
  return {.begin = now, .end = now + 1, .count = n, .operation = n, .kind = kind};
}

const TraceEvent& find(const std::vector<TraceEvent>& events, const std::string& name) {
  static const TraceEvent none;
  for (const TraceEvent& event : events)
    if (event.text("name") == name) return event;
  return none;
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  return text.str();
}

TEST_CASE("without TUTTI_TRACE_FILE there is no recorder") {
  std::string trouble;
  CHECK(Recorder::open(owner, algorithms::BoardReaders{}, trouble) == nullptr);
  CHECK(trouble == "");
}

TEST_CASE("the last records stay, and the file says how many are lost") {
  const Traced traced;
  {
    auto recorder = traced.open();
    for (std::uint32_t n = 1; n <= 40; ++n) recorder->add(call_number(n));
  }
  const auto events = traced.read();
  CHECK(find(events, "tutti_rank").number("records") == 40);
  CHECK(find(events, "tutti_rank").number("lost") == 24);
  CHECK(find(events, "all_reduce #24").line == "");
  for (int n = 25; n <= 40; ++n) CHECK(find(events, "all_reduce #" + std::to_string(n)).number("count") == n);
}

TEST_CASE("times are those of CLOCK_MONOTONIC") {
  const Traced traced;
  const std::int64_t before = trace::monotonic();
  {
    auto recorder = traced.open();
    recorder->add(call_number(1));
    recorder->set_clock(0, 5'000'000'000'000, 7);               // of another host
    std::this_thread::sleep_for(std::chrono::milliseconds{5});  // the clocks' rates are compared over this time
  }
  const std::int64_t after = trace::monotonic();
  const auto events = traced.read();
  const long long time = find(events, "all_reduce #1").time("ts") - 5'000'000'000'000;
  CHECK(time > before);
  CHECK(time < after);
  CHECK(find(events, "tutti_rank").number("offset_ns") == 5'000'000'000'000);
  CHECK(find(events, "tutti_rank").number("uncertainty_ns") == 7);
}

TEST_CASE("an arrow begins when its message was given to the link, though the one before is lent and ends later") {
  const Traced traced;
  const std::int64_t now = trace::ticks();
  const auto at = [&](std::int64_t moment) { return now + moment * 1'000'000; };
  {
    auto recorder = traced.open();
    const std::uint16_t group = recorder->add_group(5, 2, {});
    const auto send = [&](std::int64_t given, std::int64_t end, std::uint64_t number) {
      recorder->add({.begin = at(1),
                     .middle = at(given),
                     .end = at(end),
                     .bytes = 8,
                     .count = number,
                     .peer = 1,
                     .group = group,
                     .kind = Kind::send});
    };
    send(2, 20, 1);
    send(3, 21, 2);
    send(30, 31, 3);
  }
  std::vector<long long> begins, arrows;
  for (const TraceEvent& event : traced.read()) {
    if (event.is("s")) arrows.push_back(event.time("ts"));
    if (event.is("X") && event.text("cat") == "message") begins.push_back(event.time("ts"));
  }
  REQUIRE(arrows.size() == 3);
  REQUIRE(begins.size() == 3);
  std::ranges::sort(begins);
  std::ranges::sort(arrows);
  CHECK(arrows[1] - arrows[0] < arrows[2] - arrows[1]);
  for (std::size_t i = 0; i < 3; ++i) CHECK(begins[i] <= arrows[i]);
}

TEST_CASE("of communicators that a trace does not tell apart there are slices and no arrows") {
  const Traced traced;
  {
    auto recorder = traced.open();
    const std::int64_t now = trace::ticks();
    recorder->add({.begin = now, .middle = now + 1, .end = now + 2, .count = 1, .peer = 1, .kind = Kind::send});
  }
  const auto events = traced.read();
  CHECK(find(events, "send").text("group") == "0");
  CHECK(std::ranges::none_of(events, [](const TraceEvent& event) { return event.is("s"); }));
}

TEST_CASE("flushed records are not written again, and later ones are added") {
  const Traced traced;
  auto recorder = traced.open();
  recorder->add(call_number(1));
  recorder->flush();
  recorder->add(call_number(2));
  recorder.reset();
  const auto events = traced.read();
  for (const char* name : {"all_reduce #1", "all_reduce #2"})
    CHECK(std::count_if(events.begin(), events.end(),
                        [&](const TraceEvent& event) { return event.text("name") == name; }) == 1);
}

TEST_CASE("a record left half written goes, and all before it stays") {
  const Traced traced;
  auto recorder = traced.open();
  recorder->add(call_number(1));
  recorder->flush();
  const std::string whole = content(traced.path);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{4}, std::size_t{5}, std::size_t{60}}) {
    CAPTURE(cut);
    std::ofstream{traced.path} << whole.substr(0, whole.size() - cut);
    recorder->add(call_number(static_cast<std::uint32_t>(cut + 1)));
    recorder->flush();
    const std::string mended = content(traced.path);
    CHECK(mended.ends_with("}\n]}\n"));
    CHECK(mended.find("}\n{") == std::string::npos);
    const auto events = traced.read();
    for (const TraceEvent& event : events) CHECK((event.line.ends_with("},") || event.line.ends_with("}")));
    CHECK(find(events, "all_reduce #" + std::to_string(cut + 1)).line != "");
    CHECK((cut >= 4) == (find(events, "all_reduce #1").line == ""));  // without what follows it might not be whole
  }
}

TEST_CASE("calls of kinds that alternate do not have their plans built once more for each") {
  algorithms::BoardReaders readers;
  const auto all_read_the_root = [&] {
    bool all = true;
    for (int root = 0; root < 4; ++root)
      all = all && readers(Collective::broadcast, "direct", 4, root, (root + 1) % 4, root);
    return all;
  };
  CHECK(all_read_the_root());
  const std::size_t before = transport::testing::allocations();
  const bool again = all_read_the_root();
  CHECK(transport::testing::allocations() == before);
  CHECK(again);
}

TEST_CASE("a program that changes its folder has its trace where it began") {
  const Folder folder, other;
  const std::filesystem::path before = std::filesystem::current_path();
  const Setting file{"TUTTI_TRACE_FILE", "t.json"};
  std::string trouble;
  std::filesystem::current_path(folder.name);
  auto recorder = Recorder::open(owner, algorithms::BoardReaders{}, trouble);
  std::filesystem::current_path(other.name);
  REQUIRE(recorder);
  recorder->add(call_number(1));
  recorder.reset();
  std::filesystem::current_path(before);
  CHECK(find(read_trace(folder.name + "/t.json"), "all_reduce #1").line != "");
  CHECK_FALSE(std::filesystem::exists(other.name + "/t.json"));
}

TEST_CASE("a file that cannot be made is refused before the ranks meet") {
  const Setting file{"TUTTI_TRACE_FILE", "/no-such-folder/t.json"};
  std::string trouble;
  CHECK(error_of([&] {
          Recorder::open(owner, algorithms::BoardReaders{}, trouble);
        }).find("Name a file in a folder that exists") != std::string::npos);
}

TEST_CASE("a number of records that cannot be is refused") {
  const Traced traced;
  for (const char* text : {"0", "15", "many", "16k", "99999999999999999999"}) {
    const Setting records{"TUTTI_TRACE_RECORDS", text};
    std::string trouble;
    CHECK(error_of([&] { Recorder::open(owner, algorithms::BoardReaders{}, trouble); }).find(text) !=
          std::string::npos);
  }
}

/// Memory as a launcher makes it, written by a process that is killed.
void record_and_die(const Traced& traced, const Descriptor& memory, int calls) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TUTTI_TRACE_FD", std::to_string(memory.get()).c_str(), 1);
    auto recorder = traced.open();
    recorder->add(call_number(7, Kind::begun));
    for (int n = 1; n <= calls; ++n) recorder->add(call_number(static_cast<std::uint32_t>(100 + n)));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
}

TEST_CASE("the memory of a killed rank tells its finished calls and the unfinished one") {
  const Traced traced;
  const Descriptor memory = trace::make_memory(16);
  record_and_die(traced, memory, 3);
  CHECK(!std::filesystem::exists(traced.path));  // the launcher's business
  CHECK(trace::append(traced.path, trace::Mapping{memory, trace::size_of_memory(memory.get())},
                      algorithms::BoardReaders{}) == 0);
  const auto events = traced.read();
  CHECK(find(events, "tutti_rank").text("closed") == "false");
  CHECK(find(events, "all_reduce #103").line != "");
  CHECK(find(events, "all_reduce #7").text("unfinished") == "true");
}

/// The file, locked by another writer.
Descriptor held(const Traced& traced) {
  Descriptor file(::open(traced.path.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(file);
  REQUIRE(::flock(file.get(), LOCK_EX) == 0);
  return file;
}

TEST_CASE("records that could not be added to the file are added the next time") {
  const Traced traced;
  const Descriptor memory = trace::make_memory(16);
  record_and_die(traced, memory, 3);
  trace::make_file(traced.path);
  const auto append = [&] {
    trace::append(traced.path, trace::Mapping{memory, trace::size_of_memory(memory.get())}, algorithms::BoardReaders{},
                  {.idle = std::chrono::milliseconds{20}});
  };
  {
    const Descriptor other = held(traced);
    CHECK(error_of(append).find("another process holds it, and has written nothing for 0.02 s") != std::string::npos);
  }
  append();
  const auto events = traced.read();
  CHECK(find(events, "all_reduce #103").line != "");
  CHECK(find(events, "tutti_rank").number("lost") == 0);
}

TEST_CASE("a writer that goes on is waited for, as long as the caller has time") {
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds idle{400};
  const Traced traced;
  const Descriptor memory = trace::make_memory(16);
  record_and_die(traced, memory, 3);
  trace::make_file(traced.path);
  std::thread other{[file = held(traced)] {
    off_t more = 0;
    for (const auto end = Clock::now() + 3 * idle; Clock::now() < end; more = (more + 1) % 100)
      if (::ftruncate(file.get(), 1000 + more) != 0) return;
  }};
  const auto append = [&](const trace::Patience& patience) {
    return error_of([&] {
      trace::append(traced.path, trace::Mapping{memory, trace::size_of_memory(memory.get())},
                    algorithms::BoardReaders{}, patience);
    });
  };
  CHECK(append({.idle = idle, .in_all = std::chrono::milliseconds{50}}).find("for 0.05 s, and still do") !=
        std::string::npos);
  CHECK(append({.idle = idle}) == "");
  other.join();
  CHECK(find(traced.read(), "all_reduce #103").line != "");
}

TEST_CASE("nothing that stands in a rank's memory can harm its reader") {
  const Traced traced;
  const Descriptor memory = trace::make_memory(16);
  record_and_die(traced, memory, 20);
  const trace::Mapping mapping{memory, trace::size_of_memory(memory.get())};
  trace::Memory& header = mapping.memory();
  header.names = header.groups = 1'000'000;
  header.name.back().fill('x');
  header.host.fill('"');
  header.group[0] = {.id = 1, .size = 1'000'000, .rank = -5, .members = 4'000'000'000, .has_members = 1};
  header.group[1] = {.id = 1, .size = -1, .rank = 99, .members = 5, .has_members = 1};
  header.capacity = 1ULL << 40;
  for (int i = 0; i < 16; ++i) {
    Record& record = mapping.records()[i];
    record = call_number(1, static_cast<Kind>(i < 13 ? i : i == 15 ? 115 : i + 2));
    record.collective = record.type = record.op = record.name = 200;
    record.middle = -1;
    record.bytes = ~0ULL;
    record.peer = -77;
    record.group = static_cast<std::uint16_t>(i % 3);
    record.flags = static_cast<std::uint8_t>(i % 2 == 0 ? 0 : 255);
  }
  trace::append(traced.path, mapping, algorithms::BoardReaders{});
  CHECK(content(traced.path).ends_with("]}\n"));
  CHECK(find(traced.read(), "tutti_rank").number("lost") == 21 - 15);
  header.layout = trace::layout_version + 1;
  CHECK(error_of([&] {
          trace::append(traced.path, mapping, algorithms::BoardReaders{});
        }).find("no rank of this version") != std::string::npos);
}

}  // namespace
}  // namespace tutti::testing
