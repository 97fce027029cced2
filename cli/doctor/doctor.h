#pragma once

#include <string>
#include <vector>

namespace tutti::cli {

enum class Level { ok, warn, fail };

/// The result of one check of this machine.
struct Finding {
  Level level = Level::ok;
  std::string what;
  std::string found;
  std::string remedy;  ///< what to do if it is not ok
};

// The checks. Each tries the real operation if possible, within a second, and leaves nothing behind.

std::vector<Finding> check_machine(int ranks);  ///< host, kernel, cores, memory, limits, instruction set
std::vector<Finding> check_network();           ///< interfaces, launcher, TCP over loopback
std::vector<Finding> check_sharing();           ///< shared memory between processes, reading another's memory
std::vector<Finding> check_waiting();           ///< how long it takes to wake a sleeping process
std::vector<Finding> check_cuda();

/// `tutti doctor`: exit code 0, or 1 if something that every job needs does not work.
int doctor_main(int argc, char** argv);

}  // namespace tutti::cli
