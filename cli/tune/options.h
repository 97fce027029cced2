#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/measure/workload.h"
#include "cli/tune/gpus.h"

namespace tutti::cli::tune {

struct Options {
  bool help = false;
  bool check = false;  ///< judge the table instead of writing one
  bool on_gpu = false;
  std::vector<measure::MeasuredCall> calls;
  std::vector<int> ranks{2, 4, 8};
  std::vector<std::string> transports{"shm", "tcp"};  ///< with on_gpu: kinds of GPUs, empty for those of the ranks
  std::vector<std::size_t> sizes;
  double seconds = 55;
  std::string output = "tutti.tuning";
  bool force = false;
  std::string table;  ///< --check: instead of TUTTI_TUNING_FILE and the built-in table
  std::string csv;    ///< --check
  bool bind_to_core = true;
  Gpus gpus;  ///< on_gpu: what look_at_gpus() found
};

/// Prints the help if requested. Throws Error{invalid_argument}.
Options parse_options(int argc, char** argv);

}  // namespace tutti::cli::tune
