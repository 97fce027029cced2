#pragma once

#include <cstdint>
#include <string>

#include "lib/observe/trace/chrome.h"
#include "lib/observe/trace/record.h"

// A trace's file: JSON in Chrome's trace-event format, one event a line, to which each rank adds its own when it is
// done. It can be loaded at any time; what a writer that was killed left half written goes with the next one.
//
// Threading and processes: any; a lock on the file orders its writers.

namespace tutti::trace {

/// In every file. Another number where those who read this one cannot read what is written.
inline constexpr int file_format = 2;

/// An empty trace in the place of whatever was there. Throws Error{system} that names the file.
void make_file(const std::string& path);
/// Does nothing if this process has done so already.
void make_file_once(const std::string& path);
/// Adds what the memory says and is not there yet. Returns how many records of that were lost. Throws Error, with the
/// file as it was.
std::uint64_t append(const std::string& path, const Mapping& mapping, const BoardReads& board_reads);

}  // namespace tutti::trace
