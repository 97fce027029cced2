// Environment in, launch out: one test per launcher, and one per way in which variables can be wrong.

#include "rendezvous/launchers.h"

#include <unistd.h>

#include "tests/rendezvous/launches.h"

namespace tutti::testing {

TEST_CASE("with nothing set a process is rank 0 of 1 and meets nobody") {
  CHECK(summary(launch_of({})) == "0/1 local -1/-1 nowhere tutti (nothing: a single process)");
  CHECK(summary(launch_of({{"TUTTI_RANK", ""}, {"HOME", "/root"}})) ==
        "0/1 local -1/-1 nowhere tutti (nothing: a single process)");
}

TEST_CASE("tutti run") {
  CHECK(summary(launch_of(tutti_run)) == "1/4 local 1/2 tcp://n0:29500 tutti/j (TUTTI_*)");
  CHECK(summary(launch_of(tutti_run + Variables{{"TUTTI_RANK", "0"}, {"TUTTI_LOCAL_RANK", "0"}})) ==
        "0/4 local 0/2 tcp://n0:29500 serves tutti/j (TUTTI_*)");
}

TEST_CASE("rank 0 does not serve where the launcher does, or where a store is named that serves already") {
  const Variables rank_0{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"TUTTI_RDZV", "tcp://n0:29500"}};
  const Variables agent{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_ADDR", "n0"}};
  CHECK(launch_of(rank_0).serve);
  CHECK_FALSE(launch_of(rank_0 + agent + Variables{{"MASTER_PORT", "29500"}}).serve);
  CHECK(launch_of(rank_0 + agent + Variables{{"MASTER_PORT", "29501"}}).serve);  // that is another store
  const Launch store = launch_of(rank_0 + Variables{{"TUTTI_RDZV", "store://n0:29500"}});
  CHECK_FALSE(store.serve);
  CHECK(store.rendezvous == "tcp://n0:29500");
  for (const char* address : {"fd00::1", "[fd00::1]"}) {
    const Variables at{{"MASTER_ADDR", address}, {"MASTER_PORT", "29500"}};
    CHECK_FALSE(launch_of(rank_0 + agent + at + Variables{{"TUTTI_RDZV", "tcp://[fd00::1]:29500"}}).serve);
  }
}

TEST_CASE("other ranks know that rank 0 serves, with the same variables, unless each was given its own") {
  const Variables place{{"TUTTI_RDZV", "tcp://n0:29500"}};
  CHECK(launch_of(slurm).rank_0_serves);
  CHECK(launch_of(open_mpi + place).rank_0_serves);
  CHECK_FALSE(launch_of(open_mpi).rank_0_serves);  // they meet in a file
  CHECK_FALSE(launch_of(open_mpi + Variables{{"TUTTI_RDZV", "store://n0:29500"}}).rank_0_serves);
  CHECK_FALSE(launch_of(slurm + Variables{{"SLURM_PROCID", "0"}}).rank_0_serves);
  CHECK_FALSE(launch_of(tutti_run).rank_0_serves);
  CHECK_FALSE(launch_of(by_hand + Variables{{"RANK", "1"}}).rank_0_serves);
}

TEST_CASE("other ranks await rank 0 where it serves, and nobody where a store is there already, or for a store") {
  const Variables rank_1 = by_hand + Variables{{"RANK", "1"}};
  CHECK(launch_of(rank_1).awaits_rank_0);
  CHECK(launch_of(slurm).awaits_rank_0);
  CHECK_FALSE(launch_of(by_hand).awaits_rank_0);
  CHECK_FALSE(launch_of(rank_1 + Variables{{"TUTTI_RDZV", "store://n0:29500"}}).awaits_rank_0);
  CHECK_FALSE(launch_of(rank_1 + Variables{{"TUTTI_RDZV", "file:///store"}}).awaits_rank_0);
  CHECK_FALSE(launch_of(torchrun + Variables{{"RANK", "1"}}).awaits_rank_0);
  const auto lookup = [&](const std::string& name) {
    const auto it = rank_1.find(name);
    return it == rank_1.end() ? std::nullopt : std::optional{it->second};
  };
  CHECK_FALSE(find_launch({}, lookup, rendezvous::MeetFor::store).awaits_rank_0);
}

TEST_CASE("torchrun: a client of the agent's store under a prefix of its own per restart, else rank 0 serves") {
  CHECK(summary(launch_of(torchrun)) == "0/2 local 0/2 tcp://n0:29500 /worker/attempt_3/tutti/none (torchrun)");
  CHECK(summary(launch_of(torchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "False"}})) ==
        "0/2 local 0/2 tcp://n0:29500 serves /worker/attempt_3/tutti/none (torchrun)");
  CHECK(summary(launch_of(torchrun + Variables{{"TUTTI_JOB", "second"}})) ==
        "0/2 local 0/2 tcp://n0:29500 /worker/attempt_3/tutti/none/second (torchrun)");
}

TEST_CASE(
    "a launcher's own store knows nothing of our secrets; that of tutti run does, by whichever name it is called") {
  CHECK(launch_of(torchrun).foreign);
  CHECK_FALSE(launch_of(torchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "False"}}).foreign);
  CHECK_FALSE(launch_of(torchrun + Variables{{"TUTTI_RDZV", "store://n1:29500"}}).foreign);
  const Variables both{{"TUTTI_RANK", "0"},
                       {"TUTTI_SIZE", "2"},
                       {"RANK", "0"},
                       {"WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "n0"},
                       {"MASTER_PORT", "29500"},
                       {"TUTTI_RDZV", "store://n0:29500"},
                       {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  ConnectOptions by_environment;
  by_environment.rendezvous = "env://";
  CHECK_FALSE(launch_of(both).foreign);
  CHECK_FALSE(launch_of(both, by_environment).foreign);
  CHECK(launch_of(both + Variables{{"MASTER_PORT", "29501"}}, by_environment).foreign);
}

TEST_CASE("env:// by hand, also with an IPv6 address, and as a rendezvous of its own") {
  CHECK(summary(launch_of(by_hand)) == "0/2 local -1/-1 tcp://n0:29500 serves tutti (env://)");
  CHECK(launch_of(by_hand + Variables{{"MASTER_ADDR", "fd00::1"}}).rendezvous == "tcp://[fd00::1]:29500");
  CHECK(launch_of(by_hand + Variables{{"MASTER_ADDR", "[fd00::1]"}}).rendezvous == "tcp://[fd00::1]:29500");
  const Variables both = by_hand + Variables{{"TUTTI_RANK", "3"}, {"TUTTI_SIZE", "9"}};
  CHECK(launch_of(both).size == 9);
  CHECK(launch_of(both + Variables{{"TUTTI_RDZV", "env://"}}).size == 2);
  ConnectOptions options;
  options.rendezvous = "env://";
  CHECK(launch_of(both, options).size == 2);
}

TEST_CASE("Open MPI: a named place, or a private file when all ranks are on this host") {
  const Launch alone = launch_of(open_mpi);
  CHECK(alone.rank == 2);
  CHECK(alone.size == 4);
  CHECK(alone.local_rank == 2);
  CHECK(alone.source == "Open MPI");
  CHECK(alone.own_folder);
  CHECK_FALSE(alone.serve);
  CHECK(alone.rendezvous.starts_with("file:///tmp/tutti-" + std::to_string(::geteuid()) + "-"));
  CHECK(launch_of(open_mpi + Variables{{"OMPI_COMM_WORLD_RANK", "0"}}).rendezvous == alone.rendezvous);
  CHECK(launch_of(open_mpi + Variables{{"PMIX_NAMESPACE", "other"}}).rendezvous != alone.rendezvous);
  CHECK(launch_of(open_mpi + Variables{{"PMIX_SERVER_URI2", "other"}}).rendezvous != alone.rendezvous);

  const Variables wide = open_mpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
  CHECK(launch_of(wide + Variables{{"TUTTI_RDZV", "tcp://n0:1234"}}).rendezvous == "tcp://n0:1234");
  CHECK(launch_of(wide + Variables{{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "1234"}}).rendezvous == "tcp://n0:1234");
  check_refused(wide, {"several hosts", "mpirun -x TUTTI_RDZV", "Open MPI"});
}

TEST_CASE("the private file lies in XDG_RUNTIME_DIR where that is this user's") {
  const TempFolder folder;
  CHECK(launch_of(open_mpi + Variables{{"XDG_RUNTIME_DIR", folder.path()}})
            .rendezvous.starts_with("file://" + folder.path()));
  CHECK(launch_of(open_mpi + Variables{{"XDG_RUNTIME_DIR", "/no/such/folder"}}).rendezvous.starts_with("file:///tmp/"));
}

TEST_CASE("MPICH, Intel MPI, Cray PALS and MVAPICH2") {
  const Launch launch = launch_of(hydra);
  CHECK(launch.size == 3);
  CHECK(launch.local_size == 3);
  CHECK(launch.source == "PMI");
  CHECK(launch.own_folder);
  CHECK(launch_of(hydra + Variables{{"PMI_RANK", "2"}, {"MPI_LOCALRANKID", "2"}}).rendezvous == launch.rendezvous);
  check_refused(hydra + Variables{{"MPI_LOCALNRANKS", "2"}}, {"several hosts", "TUTTI_RDZV", "PMI"});

  const Variables tcp{{"TUTTI_RDZV", "tcp://n0:1"}};
  CHECK(summary(launch_of(
            tcp +
            Variables{{"PALS_RANKID", "1"}, {"PMI_SIZE", "2"}, {"PMI_LOCAL_RANK", "0"}, {"PMI_LOCAL_SIZE", "1"}})) ==
        "1/2 local 0/1 tcp://n0:1 tutti (PMI)");
  CHECK(summary(launch_of(tcp + Variables{{"MV2_COMM_WORLD_RANK", "1"},
                                          {"MV2_COMM_WORLD_SIZE", "2"},
                                          {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                                          {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}})) ==
        "1/2 local 1/2 tcp://n0:1 tutti (MVAPICH2)");
}

TEST_CASE("a Kubernetes indexed job, JobSet and Kubeflow") {
  const Variables place{{"TUTTI_RDZV", "tcp://job-0.svc:29500"}};
  CHECK(summary(launch_of(kubernetes + place)) ==
        "1/3 local -1/-1 tcp://job-0.svc:29500 tutti (Kubernetes indexed job)");
  CHECK(launch_of(Variables{{"JOB_COMPLETION_INDEX", "1"}, {"TUTTI_SIZE", "3"}} + place).size == 3);
  CHECK(launch_of(kubernetes + Variables{{"MASTER_ADDR", "job-0.svc"}, {"MASTER_PORT", "1"}}).rendezvous ==
        "tcp://job-0.svc:1");
  check_refused(kubernetes, {"TUTTI_RDZV", "Kubernetes"});
  check_refused({{"JOB_COMPLETION_INDEX", "0"}}, {"JOB_COMPLETION_INDEX", "TUTTI_SIZE", "WORLD_SIZE"});
  check_refused(kubernetes + Variables{{"TUTTI_SIZE", "4"}}, {"TUTTI_SIZE is 4", "WORLD_SIZE is 3"});

  const Variables train_job{{"JOB_COMPLETION_INDEX", "1"},
                            {"PET_NNODES", "2"},
                            {"PET_NPROC_PER_NODE", "1"},
                            {"PET_MASTER_ADDR", "j-node-0-0.j"},
                            {"PET_MASTER_PORT", "29500"}};
  CHECK(summary(launch_of(train_job)) == "1/2 local -1/-1 tcp://j-node-0-0.j:29500 tutti (Kubernetes indexed job)");
  check_refused(train_job + Variables{{"PET_NPROC_PER_NODE", "8"}}, {"JOB_COMPLETION_INDEX"});
  // The older PyTorchJob numbers pods as torch's env:// does processes: one rank per pod.
  CHECK(launch_of(by_hand).source == "env://");
}

TEST_CASE(
    "the ranks that mpirun starts on the hosts of a Slurm job meet, though only some are in a step of its daemons") {
  const Variables place{{"TUTTI_RDZV", "tcp://n0:29500"}};
  const Launch beside_mpirun = launch_of(open_mpi + place);
  const Launch under_a_daemon = launch_of(
      open_mpi + place +
      Variables{{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  CHECK(under_a_daemon.source == "Open MPI");
  CHECK(under_a_daemon.prefix == beside_mpirun.prefix);
  const Variables both = slurm + place + Variables{{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}};
  CHECK(launch_of(both).prefix == "tutti/slurm-71.0");  // srun --mpi=pmi2
}

TEST_CASE("the service links of a Kubernetes service called master are no port, and matter only where one is wanted") {
  const Variables links{{"MASTER_PORT", "tcp://10.0.0.1:23456"}, {"MASTER_SERVICE_HOST", "10.0.0.1"}};
  for (const Variables& job : {by_hand, slurm, kubernetes + Variables{{"MASTER_ADDR", "n0"}}})
    check_refused(job + links, {"MASTER_PORT is \"tcp://10.0.0.1:23456\"", "Kubernetes", "enableServiceLinks: false"});
  CHECK(launch_of(tutti_run + links).rendezvous == "tcp://n0:29500");
  CHECK(launch_of(kubernetes + links + Variables{{"TUTTI_RDZV", "tcp://job-0.svc:29500"}}).size == 3);
}

TEST_CASE("the first complete set wins, in the order options, TUTTI_*, torch, Open MPI, PMI, Slurm, Kubernetes") {
  Variables all = tutti_run + by_hand + open_mpi + hydra + slurm + Variables{{"JOB_COMPLETION_INDEX", "1"}};
  ConnectOptions options;
  options.rank = 8;
  options.size = 9;
  CHECK(summary(launch_of(all, options)) == "8/9 local -1/-1 tcp://n0:29500 tutti/j (options)");
  const auto drop = [&](const std::vector<const char*>& names) {
    for (const char* name : names) all.erase(name);
    return launch_of(all).source;
  };
  CHECK(drop({}) == "TUTTI_*");
  CHECK(drop({"TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE"}) == "env://");
  CHECK(drop({"RANK"}) == "Open MPI");  // half a set of torch's is passed over where another is whole
  CHECK(drop({"OMPI_COMM_WORLD_RANK"}) == "PMI");
  CHECK(drop({"PMI_RANK", "PMI_SIZE"}) == "Slurm step");
  CHECK(drop({"SLURM_STEP_ID"}) == "Kubernetes indexed job");
}

TEST_CASE("half a set and nothing else is an error that names what is there and what is not") {
  check_refused({{"TUTTI_RANK", "0"}}, {"TUTTI_RANK", "TUTTI_SIZE"});
  check_refused({{"TUTTI_SIZE", "2"}}, {"TUTTI_RANK", "TUTTI_SIZE"});
  check_refused({{"RANK", "0"}}, {"RANK", "WORLD_SIZE"});
  check_refused({{"WORLD_SIZE", "2"}}, {"RANK", "WORLD_SIZE"});
  check_refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {"RANK", "WORLD_SIZE", "MASTER_ADDR"});
  check_refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}, {"MASTER_ADDR", "MASTER_PORT"});
  check_refused({{"OMPI_COMM_WORLD_RANK", "0"}}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  check_refused({{"PMI_SIZE", "2"}}, {"PMI_RANK", "PMI_SIZE"});
  check_refused({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}}, {"PMIX_RANK", "TUTTI_SIZE"});
  check_refused({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}}, {"TUTTI_RDZV", "TUTTI_*"});
  check_refused({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}, {"MASTER_ADDR", "h"}}, {"MASTER_ADDR", "MASTER_PORT"});
  check_refused(by_hand + Variables{{"RANK", ""}, {"TUTTI_RDZV", "env://"}}, {"env://", "RANK"});
}

TEST_CASE("a place to meet makes a rank of nobody, and so no communicator; a store may be there all the same") {
  for (const char* name : {"TUTTI_RDZV", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE"}) {
    const Variables given{{name, std::string{name} == "TUTTI_RDZV" ? "tcp://n0:29500" : "1"}};
    check_refused(given, {std::string{name} + " is set, but no rank", "TUTTI_RANK", "TUTTI_SIZE"});
    const auto lookup = [&](const std::string& asked) {
      return asked == name ? std::optional{given.at(name)} : std::nullopt;
    };
    CHECK(find_launch({}, lookup, rendezvous::MeetFor::store).size == 1);
    CHECK(find_launch({}, lookup, rendezvous::MeetFor::nothing).size == 1);
    CHECK(launch_of(given, {.rank = 0, .size = 1}).size == 1);
  }
}

TEST_CASE("RANK and WORLD_SIZE with a place from TUTTI_RDZV or the options are enough") {
  const Variables places{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  CHECK(launch_of(places + Variables{{"TUTTI_RDZV", "file:///shared/x"}}).rendezvous == "file:///shared/x");
  ConnectOptions options;
  options.store = memory_store();
  CHECK(summary(launch_of(places, options)) == "1/2 local -1/-1 nowhere tutti (env://)");
  CHECK(launch_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).rendezvous.empty());
}

TEST_CASE("values that make no sense are refused with the variable's name") {
  for (const char* value : {"-1", "x", "1x", " 1", "99999999999", "0x1"})
    check_refused(tutti_run + Variables{{"TUTTI_RANK", value}}, {"TUTTI_RANK", value});
  check_refused(tutti_run + Variables{{"TUTTI_RANK", "4"}}, {"TUTTI_RANK", "TUTTI_SIZE", "rank 4"});
  check_refused(tutti_run + Variables{{"TUTTI_SIZE", "0"}}, {"TUTTI_SIZE"});
  check_refused(tutti_run + Variables{{"TUTTI_LOCAL_RANK", "2"}}, {"local rank 2", "TUTTI_*"});
  check_refused(tutti_run + Variables{{"TUTTI_LOCAL_SIZE", "5"}}, {"5 ranks on this host"});
  check_refused(by_hand + Variables{{"RANK", "2"}}, {"RANK and WORLD_SIZE", "rank 2"});
  check_refused(by_hand + Variables{{"MASTER_PORT", "http"}}, {"MASTER_PORT", "http"});
  check_refused(by_hand + Variables{{"MASTER_PORT", "65536"}}, {"MASTER_PORT", "65536"});
  check_refused(slurm + Variables{{"SLURM_PROCID", "7"}}, {"SLURM_PROCID", "rank 7"});
  check_refused({{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "65536"}}, {"65535 ranks at most, and not 65536"});
  check_refused(slurm + Variables{{"SLURM_STEP_NUM_TASKS", "2000000000"}}, {"65535 ranks at most"});
}

TEST_CASE("places are read strictly, with a hint") {
  const auto refused = [](const std::string& url, const std::vector<std::string>& named) {
    check_refused(tutti_run + Variables{{"TUTTI_RDZV", url}}, named);
    ConnectOptions options;
    options.rendezvous = url;
    check_refused(tutti_run, {"the rendezvous address is \"" + url + "\""}, options);
  };
  refused("tcp://::1:29500", {"TUTTI_RDZV", "brackets", "[::1]:29500"});
  refused("tcp://n0", {"port is missing"});
  refused("tcp://n0:", {"port is missing"});
  refused("tcp://:1", {"host is missing"});
  refused("tcp://n0:99999", {"65535"});
  refused("tcp://[::1]29500", {"[IPv6 address]:port"});
  refused("file://relative", {"full path"});
  refused("file:///folder/", {"full path"});
  refused("tpc://n0:1", {"Did you mean \"tcp\""});
  refused("n0:29500", {"expected tcp://host:port"});
  refused("http://n0:1", {"expected tcp://"});
  refused("env://x", {"expected tcp://"});
  CHECK(launch_of(tutti_run + Variables{{"TUTTI_RDZV", "tcp://[::1]:29500"}}).rendezvous == "tcp://[::1]:29500");
}

TEST_CASE("options are taken where given, the rest from the launcher") {
  ConnectOptions options;
  options.rendezvous = "tcp://elsewhere:1";
  options.job = "mine";
  CHECK(summary(launch_of(tutti_run, options)) == "1/4 local 1/2 tcp://elsewhere:1 tutti/mine (TUTTI_*)");
  options.rank = 0;
  CHECK(summary(launch_of(tutti_run, options)) == "0/4 local 1/2 tcp://elsewhere:1 serves tutti/mine (TUTTI_*)");
  check_refused({}, {"the rank is given, but the size is not"}, options);
  options.size = 1;
  CHECK(launch_of({}, options).rendezvous.empty());
  options.rank = 1;
  check_refused({}, {"the given rank and size", "rank 1"}, options);
  ConnectOptions unmet;
  unmet.rank = 0;
  unmet.size = 2;
  check_refused({}, {"give a rendezvous address", "TUTTI_RDZV"}, unmet);
  unmet.rank = -5;
  check_refused({}, {"rank -5"}, unmet);
}

}  // namespace tutti::testing
