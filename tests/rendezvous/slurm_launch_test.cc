// Environment in, launch out, for tasks of Slurm's steps.

#include <set>

#include "tests/rendezvous/launches.h"

namespace tutti::testing {

TEST_CASE("a Slurm step: rank 0's host is the first of the step, the port follows from job and step") {
  const Launch launch = launch_of(slurm);
  CHECK(launch.rendezvous.starts_with("tcp://n07:2"));
  CHECK(summary(launch) == "5/7 local 1/2 " + launch.rendezvous + " tutti/slurm-71.0 (Slurm step)");
  const int port = std::stoi(launch.rendezvous.substr(launch.rendezvous.rfind(':') + 1));
  CHECK(port >= 20'000);
  CHECK(port < 30'000);
  CHECK(launch_of(slurm + Variables{{"SLURM_PROCID", "0"}}).rendezvous == launch.rendezvous);
  CHECK(launch_of(slurm + Variables{{"SLURM_PROCID", "0"}}).serve);
  CHECK(launch_of(slurm + Variables{{"SLURM_STEP_ID", "1"}}).rendezvous != launch.rendezvous);
  CHECK(launch_of(slurm + Variables{{"SLURM_NODEID", "3"}, {"SLURM_LOCALID", "0"}}).local_size == 1);

  CHECK(launch_of(slurm + Variables{{"MASTER_PORT", "1234"}}).rendezvous == "tcp://n07:1234");
  const Variables one_node{{"SLURM_NODEID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "7"}, {"SLURM_STEP_NODELIST", "n07"}};
  CHECK(launch_of(slurm + one_node + Variables{{"MASTER_PORT", "1234"}}).rendezvous == "tcp://127.0.0.1:1234");
  CHECK(launch_of(slurm + one_node + Variables{{"MASTER_ADDR", "n07"}}).rendezvous.starts_with("tcp://n07:2"));
  CHECK(launch_of(slurm + Variables{{"MASTER_ADDR", "m3"}, {"MASTER_PORT", "1234"}}).rendezvous == "tcp://m3:1234");
  CHECK(launch_of(slurm + Variables{{"TUTTI_RDZV", "file:///shared/x"}}).rendezvous == "file:///shared/x");
  CHECK(launch_of(slurm + Variables{{"SLURM_STEP_NODELIST", ""}, {"SLURM_JOB_NODELIST", "a,b"}})
            .rendezvous.starts_with("tcp://a:"));
  check_refused(slurm + Variables{{"SLURM_STEP_NODELIST", ""}}, {"SLURM_STEP_NODELIST", "MASTER_ADDR"});
  check_refused(slurm + Variables{{"SLURM_STEP_NODELIST", "n[1-"}}, {"n[1-"});
  check_refused(slurm + Variables{{"SLURM_PROCID", ""}}, {"SLURM_PROCID"});
}

TEST_CASE("steps of one node meet in a file each, since the ports of two steps may be one") {
  const Variables one_node = slurm + Variables{{"SLURM_NODEID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "7"}};
  const auto with = [&](const Variables& others) { return launch_of(one_node + others); };
  const Launch launch = with({});
  CHECK(launch.rendezvous.starts_with("file:///"));
  CHECK(launch.own_folder);
  CHECK_FALSE(launch.serve);
  CHECK(with({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}).rendezvous == launch.rendezvous);
  std::set<std::string> places;
  for (int step = 0; step < 1000; ++step) places.insert(with({{"SLURM_STEP_ID", std::to_string(step)}}).rendezvous);
  CHECK(places.size() == 1000);
  for (const char* other : {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_SRUN_COMM_PORT",
                            "SLURM_STEP_LAUNCHER_PORT"})
    CHECK(places.insert(with({{other, "1"}}).rendezvous).second);
}

TEST_CASE("in a batch script outside of srun a program is alone") {
  Variables batch = slurm;
  batch.erase("SLURM_STEP_NUM_TASKS");
  batch["SLURM_PROCID"] = "0";
  CHECK(launch_of(batch).size == 1);
  CHECK(launch_of(slurm + Variables{{"SLURM_STEP_ID", ""}}).size == 1);
  CHECK(launch_of(slurm + Variables{{"SLURM_STEP_ID", "batch"}}).size == 1);
}

TEST_CASE("srun --mpi=pmi2 sets PMI's variables too; Slurm knows where to meet") {
  const Variables pmi2 = slurm + Variables{{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}, {"PMI_FD", "9"}};
  CHECK(launch_of(pmi2).source == "Slurm step");
  // Hydra started by srun: one task per node is Hydra's proxy, and says nothing about ranks.
  check_refused(slurm + Variables{{"PMI_RANK", "5"}, {"PMI_SIZE", "28"}}, {"PMI", "TUTTI_RDZV"});
  CHECK(launch_of(slurm + open_mpi).source == "Open MPI");
}

TEST_CASE("steps whose ranks are set by hand have keys of their own in one store, unless a name says more") {
  const Variables place{{"TUTTI_RDZV", "store://n0:29500"}};
  const auto prefix = [&](const Variables& variables, const ConnectOptions& options = {}) {
    return launch_of(slurm + place + variables, options).prefix;
  };
  const Variables hand{{"TUTTI_RANK", "2"}, {"TUTTI_SIZE", "7"}};  // not the number of the task
  CHECK(prefix(hand) == "tutti/slurm-71.0");
  CHECK(prefix(hand + Variables{{"SLURM_STEP_ID", "1"}}) == "tutti/slurm-71.1");
  CHECK(prefix({{"RANK", "2"}, {"WORLD_SIZE", "7"}}) == "tutti/slurm-71.0");
  ConnectOptions options;
  options.rank = 2;
  options.size = 7;
  CHECK(prefix({}, options) == "tutti/slurm-71.0");
  options.job = "mine";
  CHECK(prefix({}, options) == "tutti/mine");
  CHECK(prefix(hand + Variables{{"TUTTI_JOB", "both"}}) == "tutti/both");
  CHECK(prefix(hand + Variables{{"TUTTI_SIZE", "14"}}) == "tutti");  // of two steps
  CHECK(prefix(hand + Variables{{"SLURM_STEP_ID", "batch"}}) == "tutti");
  options.job = "";
  options.store = memory_store();
  CHECK(prefix({}, options) == "tutti");
}

}  // namespace tutti::testing
