// The bytes that a call over a board or in allocated memory has moved, as errors and black boxes report them.

#include <doctest/doctest.h>
#include <fcntl.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/internals.h"
#include "lib/board/window.h"
#include "lib/collective/operation.h"
#include "lib/engine/engine.h"
#include "lib/observe/black_box_reader.h"
#include "tests/failure/heard.h"
#include "tests/support/scratch.h"
#include "tests/support/world.h"
#include "tutti/allocate.h"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t part_count = 60'000;  // elements of each part: more than a board takes in one round
constexpr std::size_t part_bytes = part_count * sizeof(float);
constexpr std::size_t offsets = sizeof(detail::WindowLocation::Offsets);  // which a call in allocated memory posts

struct Buffers {
  explicit Buffers(Communicator& comm) : shared(allocate<float>(comm, part_count)) {}
  SharedArray<float> shared;
  std::vector<float> own = std::vector<float>(part_count, 1), result = std::vector<float>(part_count),
                     all = std::vector<float>(usual_ranks * part_count);
};

struct Movement {
  const char* name;
  std::size_t moved;  // by all ranks
  std::function<Work(Communicator&, Buffers&)> start;
};

const Movement movements[] = {
    {"folded from a board", usual_ranks* part_bytes + usual_ranks*(usual_ranks - 1) * part_bytes,
     [](Communicator& comm, Buffers& with) {
       return comm.async().all_reduce(with.own, with.result, sum, {.algorithm = "direct"});
     }},
    {"copied from a board", usual_ranks* part_bytes + usual_ranks*(usual_ranks - 1) * part_bytes,
     [](Communicator& comm, Buffers& with) {
       return comm.async().all_gather(with.own, with.all, {.algorithm = "direct"});
     }},
    // Each rank reads its part of the others' vectors, and writes the sum to them.
    {"moved in allocated memory", usual_ranks* offsets + 2 * (usual_ranks - 1) * part_bytes,
     [](Communicator& comm, Buffers& with) { return comm.async().all_reduce(with.shared, sum); }},
};

/// What the box of each rank says of its last call.
std::vector<black_box::OperationRecord> last_entries(const std::string& folder) {
  std::vector<black_box::OperationRecord> last;
  for (int rank = 0; rank < usual_ranks; ++rank) {
    const std::string path = folder + "/box-" + std::to_string(rank);
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    last.push_back(black_box::read(file, path).entries.back());
  }
  return last;
}

std::size_t moved(const std::vector<black_box::OperationRecord>& entries) {
  return std::accumulate(entries.begin(), entries.end(), std::size_t{0},
                         [](std::size_t sum, const black_box::OperationRecord& entry) { return sum + entry.bytes; });
}

TEST_CASE("a black box has the bytes that were posted and those that were read of others") {
  for (const Movement& each : movements) {
    CAPTURE(std::string{each.name});
    const Folder folder;
    const Setting box{"TUTTI_BLACK_BOX", folder.name + "/box-%r"};
    run_ranks({.ranks = usual_ranks, .kind = Kind::shm, .leave_together = true}, [&](Communicator& comm) {
      Buffers with{comm};
      each.start(comm, with).wait();
    });
    const auto entries = last_entries(folder.name);
    for (const black_box::OperationRecord& entry : entries) CHECK(entry.state == black_box::State::done);
    CHECK(moved(entries) == each.moved);
  }
}

TEST_CASE("a call that is made at once is in the black box with the same bytes as one that waits") {
  const Folder folder;
  const Setting box{"TUTTI_BLACK_BOX", folder.name + "/box-%r"};
  constexpr std::size_t few = 1000;
  run_ranks({.ranks = usual_ranks, .kind = Kind::shm, .leave_together = true}, [](Communicator& comm) {
    std::vector<float> data(few, 1);
    for (int turn = 0; turn < 100; ++turn) comm.all_reduce(data, sum, {.algorithm = "direct"});
  });
  for (const black_box::OperationRecord& entry : last_entries(folder.name))
    CHECK(entry.bytes == usual_ranks * few * sizeof(float));
}

/// Waits for what another rank will do.
template <class Condition>
void wait_until(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + 50s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("nothing came of it");
    std::this_thread::yield();
  }
}

TEST_CASE("an error in the middle of a call has the bytes that had been read by then") {
  for (const Movement& each : movements) {
    CAPTURE(std::string{each.name});
    std::vector<Heard> answers(usual_ranks);
    std::promise<void> held, aborted;
    std::shared_future<void> is_held = held.get_future().share(), is_aborted = aborted.get_future().share();
    run_ranks({.ranks = usual_ranks, .kind = Kind::shm, .leave_together = true}, [&](Communicator& comm) {
      Buffers with{comm};
      each.start(comm, with).wait();  // makes room on the board
      if (comm.rank() == 2) {         // begins the first round, and never the second
        Work work = each.start(comm, with);
        detail::Engine& engine = detail::Internals::pending(work)->engine();
        engine.exclusively([&] {
          held.set_value();
          is_aborted.wait_for(50s);
        });
        answers[2] = heard([&] { work.wait(); });
        return;
      }
      REQUIRE(is_held.wait_for(50s) == std::future_status::ready);
      Work work = each.start(comm, with);
      if (comm.rank() == 0) {
        const auto* operation = static_cast<const detail::Operation*>(detail::Internals::pending(work));
        wait_until([&] {
          std::uint32_t rounds = 0;
          operation->engine().exclusively([&] { rounds = operation->progress().done; });
          return rounds == 1;
        });
        comm.abort("it has seen enough");
        aborted.set_value();
      }
      answers[static_cast<std::size_t>(comm.rank())] = heard([&] { work.wait(); });
    });
    const FailureDetails& details = answers[0].details;
    CHECK_MESSAGE(answers[0].code == ErrorCode::aborted, answers[0].text);
    CHECK(details.in_rounds);
    CHECK(details.steps_done == 1);
    CHECK(details.steps > 1);
    CHECK(details.bytes_received > 0);
    CHECK(details.bytes_received < each.moved);
    CHECK_MESSAGE(says(answers[0], "Round 2 of " + std::to_string(details.steps) + " was under way here, " +
                                       std::to_string(details.bytes_received) + " bytes received"),
                  answers[0].text);
  }
}

}  // namespace
}  // namespace tutti::testing
