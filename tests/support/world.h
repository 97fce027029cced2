#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/sample.h"
#include "transport/memory/copy_policy.h"
#include "tutti/tutti.h"

namespace tutti::testing {

/// What the ranks of a test communicate over. All ranks are threads of this process, but shm and tcp are the real
/// transports.
enum class Kind { inproc, shm, tcp, mixed };  // mixed: even and odd ranks play two hosts
const char* name_of(Kind kind);
inline constexpr Kind all_kinds[] = {Kind::inproc, Kind::shm, Kind::tcp, Kind::mixed};

/// How many ranks a test has that needs no other number: the one in the middle is neither the first nor the last.
inline constexpr int usual_ranks = 3;
/// The longest eager message, whose send does not wait for its receive.
inline constexpr std::size_t eager_limit = 64 * 1024;
/// A call may take so long that is to time out: the other ranks must make their calls meanwhile.
inline constexpr std::chrono::milliseconds short_deadline{sanitized ? 3000 : 1000};

struct WorldOptions {
  int ranks = 4;
  Kind kind = Kind::inproc;
  bool deterministic = false;
  bool checksum = false;
  bool boards = true;                   ///< false: all data go over links
  transport::CopyPolicy copy_policy{};  ///< how payloads are written; default: as with TUTTI_COPY_STORES=auto
  std::chrono::milliseconds timeout{60'000};
  std::string algorithms = {};  ///< as TUTTI_ALGO
  std::string plan = {};        ///< of the test's own, as in a plan file; empty: none
  std::string topology = {};    ///< as in a file of TUTTI_TOPOLOGY; empty: what the system says
  std::string tuning = {};      ///< a tuning table; empty: the built-in one
  std::string isa = {};
  std::string inject = {};      ///< as TUTTI_INJECT, without refusals
  bool leave_together = false;  ///< no communicator is closed before every rank has ended `body` or has failed to join
};

/// Runs `body` on every rank at the same time and joins them. The first exception of any rank, in rank order, is thrown
/// again here, with the rank at the beginning of its message.
void run_ranks(const WorldOptions& options, const std::function<void(Communicator&)>& body);

/// The message of the tutti::Error that `call` throws, or "" if it throws none; `code` gets its code.
std::string error_of(const std::function<void()>& call, ErrorCode* code = nullptr);

}  // namespace tutti::testing
