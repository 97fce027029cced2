#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/observe/black_box_reader.h"

namespace tutti::cli {

/// `tutti blackbox`: prints the last operations of ranks. argv[0] is the name of the subcommand. Exit code 0; throws
/// Error{invalid_argument} for a wrong command line and for a file that is not a black box.
int blackbox_main(int argc, char** argv);

// ---- What it is made of

/// "all_reduce #42 (1048576 x f32, sum)", "recv of 1000 x f32 from rank 1 (tag 5)".
std::string describe(const black_box::CallRecord& call);
/// A line per operation, newest last, at most `most` of them.
std::string as_text(const black_box::Snapshot& box, std::size_t most);
/// One JSON object with all boxes, and with `findings`.
std::string as_json(std::span<const black_box::Snapshot> boxes, std::size_t most,
                    const std::vector<std::string>& findings);

/// Whether the ranks still run.
enum class Tense { present, past };

/// The ranks that are behind, and the calls in which they differ; the communicator that has waited longest comes first.
/// Empty if no rank has waited for `least_seconds`, or if there is only one box. Boxes of several jobs are compared job
/// by job.
std::vector<std::string> compare(std::span<const black_box::Snapshot> boxes, Tense tense, double least_seconds = 0);

/// The call in which the owner of `box`, whose process has ended, was (if there are several, the oldest), and where the
/// others were then; empty if it was in no call.
std::string last_call(const black_box::Snapshot& box, std::span<const black_box::Snapshot> boxes);

/// The rank of the job that the last failure in `box` blames; -1 if it blames none of the ranks in `boxes`.
int blamed_by(const black_box::Snapshot& box, std::span<const black_box::Snapshot> boxes);

}  // namespace tutti::cli
