#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/text.h"
#include "tests/support/world.h"
#include "tutti/error.h"

namespace tutti::testing {

inline constexpr Kind watched_kinds[] = {Kind::shm, Kind::tcp, Kind::mixed};

/// The error that a call ends with, if it does.
struct Heard {
  ErrorCode code{};
  int rank = -1;
  std::string text;
  FailureDetails details;
};

inline Heard heard(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.rank(), error.what(), error.details()};
  }
  return {};
}

inline bool says(const Heard& what, const std::string& words) { return contains(what.text, words); }

/// Runs `body` on every rank and keeps all communicators until the last one is done with it.
inline std::vector<Heard> ask_all(WorldOptions options, const std::function<void(Communicator&)>& body) {
  std::vector<Heard> answers(static_cast<std::size_t>(options.ranks));
  options.leave_together = true;
  run_ranks(options,
            [&](Communicator& comm) { answers[static_cast<std::size_t>(comm.rank())] = heard([&] { body(comm); }); });
  return answers;
}

}  // namespace tutti::testing
