#pragma once

#include <string>

#include "cli/bench/compare_libraries/settings.h"

// Comparisons across the hosts that tools/hosts plays: network namespaces, each behind a link of its own. Ranks of one
// host share memory.

namespace tutti::cli::versus {

inline constexpr int most_hosts = 64;

/// 3 for the transport "hosts:3"; 0 if it is none of "hosts:2" to "hosts:64".
int hosts_of(const std::string& transport);

/// Throws Error{invalid_argument} unless this process is where `tools/hosts H --once` has made that many hosts.
void require_hosts(int hosts);

/// The words that start the ranks of `line` by `tutti run` with `options`, as many on each host.
std::vector<std::string> run_on_hosts(const Line& line, const std::vector<std::string>& options, const Places& places);

/// What Open MPI's launcher is told besides, and how it is started, which has to be on the first host.
std::vector<std::string> mpirun_on_hosts(const Line& line, const std::string& launcher, const Places& places);

/// The network interface of each host, its first if there are several.
inline constexpr const char* wire = "wire0";

}  // namespace tutti::cli::versus
