#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/observe/black_box.h"

namespace tutti::black_box {

/// One operation as it was when it was read.
struct OperationRecord {
  std::uint64_t number = 0;  ///< of the rank's operations, from 1
  CallRecord call;
  State state = State::started;
  std::uint32_t parts_done = 0;
  std::uint64_t bytes = 0;
  std::int64_t ended = 0;
  int culprit = -1;
  std::uint32_t code = 0;
  std::string failure;
};

struct Member {
  std::uint64_t group = 0;
  int size = 0;
  int rank = 0;              ///< the box's owner there
  std::uint64_t number = 0;  ///< of the rank's communicators, from 1, which is the world
};

/// The contents of one box.
struct Snapshot {
  int rank = 0;
  int size = 1;
  int pid = 0;
  std::string host;
  std::string job;
  std::string version;
  std::string scope;           ///< see scope_here()
  bool gone = false;           ///< its process has ended at a time that nobody knows; see has_gone()
  std::int64_t taken = 0;      ///< nanoseconds of CLOCK_MONOTONIC, here
  bool used = false;           ///< false: no rank has used the box; the rest means nothing
  std::uint64_t world = 0;     ///< tells the communicators of one connect() from those of another
  std::uint64_t earlier = 0;   ///< operations up to this number were in earlier worlds, and are over
  std::vector<Member> groups;  ///< oldest first
  std::vector<OperationRecord>
      entries;  ///< oldest first; without one that is being written at the moment, or never was finished
};

/// Its process has ended, or was under another running kernel than this one. False where that is not known.
bool has_gone(const Snapshot& box);

/// Without control characters, since a box may have text from anybody.
std::string printable(std::string text);

/// Reads a box at any time, whatever its owner does meanwhile; trusts nothing that it reads. Throws
/// Error{invalid_argument} that says why `descriptor` is not a box, called `name`.
Snapshot read(const Descriptor& descriptor, const std::string& name);

}  // namespace tutti::black_box
