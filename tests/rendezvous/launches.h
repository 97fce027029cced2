#pragma once

// Variables as launchers set them, and what find_launch() makes of them.

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launchers.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {

using rendezvous::find_launch;
using rendezvous::Launch;
using Variables = std::map<std::string, std::string>;

inline Launch launch_of(const Variables& variables, const ConnectOptions& options = {}) {
  return find_launch(options, [&](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional{it->second};
  });
}

inline Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

/// The error names all of these, and is about arguments.
inline void check_refused(const Variables& variables, const std::vector<std::string>& named,
                          const ConnectOptions& options = {}) {
  std::string shown;
  for (const auto& [name, value] : variables) shown += name + "=" + value + " ";
  CAPTURE(shown);
  const Error error = error_of([&] { launch_of(variables, options); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  for (const std::string& name : named)
    CHECK_MESSAGE(contains(error.what(), name), "\"", error.what(), "\" does not name ", name);
}

inline std::string summary(const Launch& launch) {
  return std::to_string(launch.rank) + "/" + std::to_string(launch.size) + " local " +
         std::to_string(launch.local_rank) + "/" + std::to_string(launch.local_size) + " " +
         (launch.rendezvous.empty() ? "nowhere" : launch.rendezvous) + (launch.serve ? " serves" : "") + " " +
         launch.prefix + " (" + launch.source + ")";
}

inline const Variables tutti_run{{"TUTTI_RANK", "1"},
                                 {"TUTTI_SIZE", "4"},
                                 {"TUTTI_LOCAL_RANK", "1"},
                                 {"TUTTI_LOCAL_SIZE", "2"},
                                 {"TUTTI_RDZV", "tcp://n0:29500"},
                                 {"TUTTI_JOB", "j"}};
inline const Variables by_hand{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}};
inline const Variables torchrun = by_hand + Variables{{"LOCAL_RANK", "0"},
                                                      {"LOCAL_WORLD_SIZE", "2"},
                                                      {"GROUP_RANK", "0"},
                                                      {"TORCHELASTIC_RESTART_COUNT", "3"},
                                                      {"TORCHELASTIC_RUN_ID", "none"},
                                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
inline const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                {"PMIX_RANK", "2"},
                                {"PMIX_NAMESPACE", "3012427777"},
                                {"PMIX_SERVER_URI2", "3012427776.0;tcp4://127.0.0.1:38043"}};
inline const Variables hydra{
    {"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"PMI_FD", "9"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "3"}};
inline const Variables slurm{{"SLURM_JOB_ID", "71"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_PROCID", "5"},
                             {"SLURM_STEP_NUM_TASKS", "7"},
                             {"SLURM_NTASKS", "7"},
                             {"SLURM_LOCALID", "1"},
                             {"SLURM_NODEID", "2"},
                             {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                             {"SLURM_STEP_NODELIST", "n[07-09],m3"},
                             {"SLURM_LAUNCH_NODE_IPADDR", "10.9.9.9"}};
inline const Variables kubernetes{{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "3"}};

}  // namespace tutti::testing
