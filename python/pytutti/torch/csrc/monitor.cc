// A barrier that says who did not come.
//
// Every rank tells rank 0 that it is here, and rank 0 tells every rank who is missing. Nothing is aborted, so that the
// program may go on. The messages have a communicator of their own, and each barrier has a tag, so that those of a rank
// that comes too late meet nobody.

#include "monitor.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "deadline.h"
#include "errors.h"
#include "meeting.h"
#include "work.h"

namespace tutti_torch {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t most_text = 512;
constexpr std::int32_t tags = 1 << 30;
constexpr std::int64_t no_limit_ms = std::int64_t{1} << 40;  // a wait ends by done_by()

/// A message on its way. It may be dropped at any time: its buffer lives as long as it must.
class Note {
 public:
  Note() : text_(at::zeros({most_text}, at::kByte)) {}
  Note(Note&&) = default;
  Note& operator=(Note&&) = default;
  ~Note() {
    if (!started_.empty()) abandon(std::move(started_));
  }

  void send(tutti_comm* comm, const std::string& text, int to, std::int32_t tag) {
    text.copy(chars(), static_cast<std::size_t>(most_text));
    remember([&](const auto* how) { return tutti_send(comm, chars(), most_text, TUTTI_U8, to, tag, how); });
  }
  void receive(tutti_comm* comm, int from, std::int32_t tag) {
    remember([&](const auto* how) { return tutti_recv(comm, chars(), most_text, TUTTI_U8, from, tag, how, nullptr); });
  }
  /// False: it is not done by then. Throws if it has failed.
  bool done_by(Clock::time_point until) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    std::int32_t done = 0;
    check(tutti_work_wait_for(started_.works().front(), std::max<std::int64_t>(left, 0), &done));
    return done != 0;
  }
  std::string text() const { return {chars(), std::find(chars(), chars() + most_text, '\0')}; }

 private:
  char* chars() const { return static_cast<char*>(text_.mutable_data_ptr()); }
  /// Starts it: `function` calls the C interface with the options that it is given.
  template <class Function>
  void remember(const Function& function) {
    tutti_work* work = nullptr;
    tutti_call_options options{};
    options.size = sizeof options;
    options.timeout_ms = no_limit_ms;
    options.work = &work;
    check(function(&options));
    started_.add(work);
    started_.keep(text_);
  }

  at::Tensor text_;
  Started started_;
};

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t most_listed = 32;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), most_listed); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > most_listed) text += " and " + std::to_string(ranks.size() - most_listed) + " more";
  return text;
}

/// Without the message that has failed, of which the program does not know.
std::string cause_of(const c10::DistBackendError& error) {
  std::string text = error.what_without_backtrace();
  if (text.rfind(timeout_prefix, 0) == 0) text.erase(0, std::strlen(timeout_prefix));
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

/// Rank 0: returns who did not come, and tells all others.
std::string gather_ranks(tutti_comm* comm, int size, std::int32_t tag, milliseconds timeout, bool wait_for_all) {
  std::vector<Note> here(static_cast<std::size_t>(size));
  for (int rank = 1; rank < size; ++rank) here[static_cast<std::size_t>(rank)].receive(comm, rank, tag);
  const auto until = deadline_after(timeout);
  std::vector<int> missing;
  std::string failure;  // then all ranks have it, and nothing more comes
  for (int rank = 1; rank < size && (missing.empty() || wait_for_all || !failure.empty()); ++rank) {
    try {
      if (here[static_cast<std::size_t>(rank)].done_by(until)) continue;
    } catch (const c10::DistBackendError& error) {
      if (failure.empty()) failure = cause_of(error);
    }
    missing.push_back(rank);
  }
  if (!failure.empty())
    return c10::str("tutti: monitored_barrier: ", list_of(missing), " of ", size,
                    " had not come when it failed: ", failure);
  std::string verdict;
  if (!missing.empty())
    verdict = c10::str("tutti: monitored_barrier: ", list_of(missing), " of ", size, " did not come within ",
                       timeout.count(), " ms: see where it is, such as by py-spy dump",
                       wait_for_all ? "" : "; with wait_all_ranks=True this would list all ranks that are missing");
  std::vector<Note> answers(static_cast<std::size_t>(size));
  for (int rank = 1; rank < size; ++rank) answers[static_cast<std::size_t>(rank)].send(comm, verdict, rank, tag);
  return verdict;
}

/// Another rank: says that it is here, and returns what rank 0 says.
std::string answer_of_root(tutti_comm* comm, int rank, std::int32_t tag, milliseconds timeout) {
  Note answer, here;
  answer.receive(comm, 0, tag);
  here.send(comm, "", 0, tag);
  // Rank 0 may come as late as this rank waits, and then wait as long for others.
  if (answer.done_by(deadline_after(2 * timeout))) return answer.text();
  return c10::str("tutti: monitored_barrier: rank ", rank, " came, but rank 0 has not answered within ",
                  2 * timeout.count(), " ms: see where rank 0 is");
}

tutti_comm* same_ranks(Communicator& group, int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return sub_group(group, ranks);
}

}  // namespace

Monitor::Monitor(Communicator& group, int size) : communicator_(same_ranks(group, size), "monitored_barrier") {}

void Monitor::barrier(int rank, int size, milliseconds timeout, bool wait_for_all) {
  const Communicator::Use use{communicator_};
  const std::int32_t tag = static_cast<std::int32_t>(barriers_.fetch_add(1) % tags);
  std::string verdict;
  try {
    verdict = rank == 0 ? gather_ranks(use.get(), size, tag, timeout, wait_for_all)
                        : answer_of_root(use.get(), rank, tag, timeout);
  } catch (const c10::DistBackendError& error) {
    verdict = c10::str("tutti: monitored_barrier: rank ", rank, " came, but the barrier failed: ", cause_of(error));
  }
  if (!verdict.empty()) fail_with(verdict);
}

}  // namespace tutti_torch
