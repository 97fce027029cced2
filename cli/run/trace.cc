#include "cli/run/trace.h"

#include <fmt/core.h>

#include <filesystem>

#include "algorithms/board_program.h"
#include "cli/base/output.h"
#include "lib/base/environment.h"
#include "lib/observe/trace/file.h"
#include "tutti/error.h"

namespace tutti::cli {

JobTrace::JobTrace(const std::string& file) : file_(file.empty() ? variable("TUTTI_TRACE_FILE").value_or("") : file) {
  if (file_.empty()) return;
  file_ = std::filesystem::absolute(file_).string();  // absolute, since ranks may change their folder
  trace::wanted_records();
  try {
    trace::make_file(file_);
  } catch (const Error& error) {
    throw OutputError{error};
  }
}

Descriptor JobTrace::memory() const {
  if (file_.empty()) return {};
  try {
    return trace::make_memory(trace::wanted_records());
  } catch (const Error&) {
    return {};  // the rank makes its own, or says why not
  }
}

JobTrace::Collected JobTrace::collect(const std::vector<Rank>& ranks) const {
  int told = 0;
  std::uint64_t lost = 0;
  const trace::BoardReads board_reads = algorithms::BoardReaders{};
  for (const Rank& rank : ranks) {
    const std::size_t bytes = rank.trace() ? trace::size_of_memory(rank.trace().get()) : 0;
    const trace::Mapping mapping = bytes > 0 ? trace::Mapping{rank.trace(), bytes} : trace::Mapping{};
    if (!mapping || mapping.memory().magic.load() == 0) continue;  // a program without tutti
    try {
      lost += trace::append(file_, mapping, board_reads);
      ++told;
    } catch (const Error& error) {
      return {error.what(), true};
    }
  }
  if (file_.empty() || told == 0) return {};
  return {fmt::format(
      "{} tells what {} {} did; open it with Perfetto, or see `tutti trace {}`{}", file_, told,
      told == 1 ? "rank" : "ranks", file_,
      lost == 0 ? "" : fmt::format(". {} records are lost, the oldest: TUTTI_TRACE_RECORDS keeps more", lost))};
}

}  // namespace tutti::cli
