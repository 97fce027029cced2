#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "algorithms/plan_text.h"
#include "algorithms/select.h"
#include "lib/base/topology.h"
#include "lib/compute/kernels.h"
#include "transport/memory/copy_policy.h"

// What connect() takes from its options, or else from TUTTI_ variables. All throw Error{invalid_argument} for a value
// that cannot be.

namespace tutti::settings {

/// The option if given, else TUTTI_TIMEOUT, else five minutes.
std::chrono::milliseconds timeout(std::chrono::milliseconds option);
/// The option if given, else TUTTI_LOST_AFTER, else ten seconds.
std::chrono::milliseconds lost_after(std::chrono::milliseconds option);

struct Transports {
  bool shm = true;
  bool tcp = true;
};
/// "shm,tcp", "tcp", "^shm": which transports may be used, by the option if given, else by TUTTI_TRANSPORT. Errors call
/// the option `called`.
Transports transports(const std::string& option, std::string_view called = "connect: transport");

/// TUTTI_ALGO, whose algorithms there are.
std::string default_algorithms();
/// From the file that the option names, else TUTTI_TUNING_FILE, else the built-in table.
std::shared_ptr<const algorithms::TuningTable> tuning(std::string path);
/// From the file that the option names, else TUTTI_PLAN_FILE; null: neither does.
std::shared_ptr<const algorithms::GivenPlans> plans(std::string path);
/// From the file that TUTTI_TOPOLOGY names.
std::optional<Topology> topology();

/// The processor's instruction set, restricted by TUTTI_ISA.
const compute::Table& kernels();
transport::CopyPolicy copy_policy(const compute::Table& kernels);
/// Tries before a wait yields the core; nothing: by ranks per core.
std::optional<int> spins();
/// TUTTI_CONGESTION, which the system must let this process use; empty: not set.
std::string congestion();

/// Reads every variable that has a type, and so throws for one that no part of this process may ever need.
void check_values();
/// Throws what connect() without options would throw here for the first variable whose value cannot be. Makes no file,
/// so that it does not notice whether TUTTI_DEBUG_FILE can be written.
void check_variables();

}  // namespace tutti::settings
