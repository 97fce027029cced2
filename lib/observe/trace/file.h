#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lib/observe/trace/chrome.h"
#include "lib/observe/trace/record.h"

// A trace's file: JSON in Chrome's trace-event format, one event a line, to which each rank adds its own when it is
// done. It can be loaded at any time; the next writer removes an event that a killed writer left incomplete.
//
// Threading and processes: any; a lock on the file orders its writers.

namespace tutti::trace {

/// Written to every file. Changed if readers of the previous format cannot read the new one.
inline constexpr int file_format = 4;

/// How long a writer waits for others: a holder of the lock may be stopped.
struct Patience {
  std::chrono::milliseconds idle{10'000};        ///< while they write nothing,
  std::chrono::milliseconds in_all{86'400'000};  ///< and in all
};

/// Creates an empty trace, replacing an existing file. Throws Error{system} that names the file.
void make_file(const std::string& path);
/// Does nothing if this process has done so already.
void make_file_once(const std::string& path);
/// Adds the records of the memory that are not in the file yet. Returns how many of them were lost. Throws Error, and
/// leaves the file as it was; the next time the records are added that are still there.
std::uint64_t append(const std::string& path, const Mapping& mapping, const BoardReads& board_reads,
                     const Patience& patience = {});

}  // namespace tutti::trace
