#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/observe/trace/record.h"

namespace tutti::trace {

/// What a trace's memory says, read once. Believes nothing of what it reads: a launcher reads what ranks wrote.
struct Snapshot {
  struct Group {
    std::uint64_t id = 0;
    int rank = 0;
    int size = 0;
    std::vector<int> members;  ///< in the world; empty: not known
  };

  int rank = 0;
  int size = 1;
  int pid = 0;
  std::string host;
  bool counts = false;
  bool closed = false;  ///< false: it was killed, or works still
  int reference = 0;
  std::int64_t offset = 0;
  std::int64_t uncertainty = 0;
  std::vector<std::string> names;
  std::vector<Group> groups;
  std::vector<Record> records;  ///< those that are not in the file yet, the oldest first
  std::uint64_t written = 0;    ///< ever
  std::uint64_t lost = 0;       ///< were written over before they could be read

  /// Nanoseconds of the reference's CLOCK_MONOTONIC.
  std::int64_t time(std::int64_t ticks) const;

  Moment opened;
  Moment closed_at;
};

/// Takes what is not in the file yet. The rank itself calls it, or somebody after its end. Throws
/// Error{invalid_argument} if no rank has used the memory, or one of another version.
Snapshot take(const Mapping& mapping);

}  // namespace tutti::trace
