// Finds this process's rank and the place where the ranks meet, from the variables of all known launchers.
//
// One function per family of launchers returns what its variables say. It returns nothing if they are absent, and adds
// a complaint if only some are set. find_launch() asks them in order; the first complete answer wins. Complaints become
// an error only if no launcher has a complete answer, so that a typing mistake does not make a program run alone.

#include "rendezvous/launchers.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <vector>

#include "lib/base/hash.h"
#include "lib/base/most_ranks.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/process.h"
#include "rendezvous/rendezvous_url.h"
#include "rendezvous/slurm.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

constexpr const char* slurm_step = "Slurm step";

/// A launcher's variables, before options are applied.
struct Answer {
  Launch launch;                          // without rendezvous and serve
  std::optional<RendezvousUrl> fallback;  // where to meet if no variable or option names a place
  std::string names;                      // names of the variables of rank and size, for errors
  std::string remedy;                     // what to do if there is no place to meet
};

struct Question {
  const Environment& env;
  MeetFor what;
  bool has_rendezvous_url = false;  // by options, or by variables common to all launchers
  bool has_rank = false;            // or size, by options
  std::vector<std::string> complaints = {};
};

Error wrong(const std::string& message) { return {ErrorCode::invalid_argument, message}; }

std::optional<Answer> tutti_variables(Question& question) {
  const Environment& env = question.env;
  const auto rank = env.number("TUTTI_RANK");
  const auto size = env.number("TUTTI_SIZE");
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    question.complaints.push_back(
        fmt::format("TUTTI_{} is set, but TUTTI_{} is not", rank ? "RANK" : "SIZE", rank ? "SIZE" : "RANK"));
    return std::nullopt;
  }
  Answer answer;
  answer.launch = {.rank = *rank, .size = *size, .source = "TUTTI_*"};
  answer.launch.local_rank = env.number("TUTTI_LOCAL_RANK").value_or(-1);
  answer.launch.local_size = env.number("TUTTI_LOCAL_SIZE").value_or(-1);
  answer.names = "TUTTI_RANK and TUTTI_SIZE";
  answer.remedy = "set TUTTI_RDZV=tcp://host:port (a free port on the host of rank 0)";
  return answer;
}

/// torchrun, and users who set the variables of torch's env:// by hand.
std::optional<Answer> torch_variables(Question& question) {
  const Environment& env = question.env;
  const auto rank = env.number("RANK");
  const auto size = env.number("WORLD_SIZE");
  if (!rank && !size) return std::nullopt;
  const bool meets = question.has_rendezvous_url || env.has("MASTER_ADDR") || size == 1;
  if (!rank || !size || !meets) {
    question.complaints.push_back(fmt::format("{} set, but {} is not",
                                              rank && size ? "RANK and WORLD_SIZE are"
                                              : rank       ? "RANK is"
                                                           : "WORLD_SIZE is",
                                              rank && size ? "MASTER_ADDR"
                                              : rank       ? "WORLD_SIZE"
                                                           : "RANK"));
    return std::nullopt;
  }
  Answer answer;
  answer.launch = {.rank = *rank, .size = *size, .source = env.has("TORCHELASTIC_RUN_ID") ? "torchrun" : "env://"};
  answer.launch.local_rank = env.number("LOCAL_RANK").value_or(-1);
  answer.launch.local_size = env.number("LOCAL_WORLD_SIZE").value_or(-1);
  answer.names = "RANK and WORLD_SIZE";
  answer.remedy = "set MASTER_ADDR and MASTER_PORT";
  return answer;
}

/// Launchers of MPI programs. They give ranks but no address; the ranks of a single host can meet in a file.
struct MpiFamily {
  const char* source;
  std::array<const char*, 2> rank;
  std::array<const char*, 2> size;
  std::array<const char*, 2> local_rank;
  std::array<const char*, 2> local_size;
  const char* pass_on;  // how this launcher passes a variable to the ranks
};

constexpr std::array<MpiFamily, 3> mpi_families{{
    {"Open MPI",
     {"OMPI_COMM_WORLD_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     "mpirun -x TUTTI_RDZV=tcp://host:port"},
    {"MVAPICH2",
     {"MV2_COMM_WORLD_RANK"},
     {"MV2_COMM_WORLD_SIZE"},
     {"MV2_COMM_WORLD_LOCAL_RANK"},
     {"MV2_COMM_WORLD_LOCAL_SIZE"},
     "mpirun_rsh ... TUTTI_RDZV=tcp://host:port ./prog"},
    {"PMI",
     {"PMI_RANK", "PALS_RANKID"},
     {"PMI_SIZE"},
     {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
     {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
     "mpirun -genv TUTTI_RDZV tcp://host:port"},
}};

std::optional<int> first_number(const Environment& env, const std::array<const char*, 2>& names) {
  for (const char* name : names)
    if (name != nullptr)
      if (const auto value = env.number(name)) return value;
  return std::nullopt;
}

/// A text that the ranks of one job have in common and no other job has. A PMIx namespace alone may be reused.
std::string identity_of_job(const Environment& env, const MpiFamily& family) {
  std::string identity = env.text("PMIX_NAMESPACE").value_or("");
  for (const char* name : {"PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2", "OMPI_MCA_orte_hnp_uri"})
    if (const auto value = env.text(name)) identity += " " + *value;
  const bool has_first = env.has(family.rank[0]);
  return identity.empty() ? encode(launcher_process(family.rank[has_first ? 0 : 1])) : identity;
}

bool is_slurm_step(const Environment& env) {
  const std::string step = env.text("SLURM_STEP_ID").value_or("");
  return !step.empty() && step.find_first_not_of("0123456789") == std::string::npos && env.has("SLURM_STEP_NUM_TASKS");
}

std::optional<Answer> mpi_variables(Question& question, const MpiFamily& family) {
  const Environment& env = question.env;
  const auto rank = first_number(env, family.rank);
  const auto size = first_number(env, family.size);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    question.complaints.push_back(fmt::format("{} is set, but {} is not", rank ? family.rank[0] : family.size[0],
                                              rank ? family.size[0] : family.rank[0]));
    return std::nullopt;
  }
  // srun --mpi=pmi2 sets both; Slurm knows the hosts.
  if (is_slurm_step(env) && env.number("SLURM_PROCID") == rank && env.number("SLURM_STEP_NUM_TASKS") == size)
    return std::nullopt;
  Answer answer;
  answer.launch = {.rank = *rank, .size = *size, .source = family.source};
  answer.launch.local_rank = first_number(env, family.local_rank).value_or(-1);
  answer.launch.local_size = first_number(env, family.local_size).value_or(-1);
  answer.names = fmt::format("{} and {}", family.rank[0], family.size[0]);
  answer.remedy =
      fmt::format("the ranks are on several hosts: name a free port on that of rank 0 with {}", family.pass_on);
  if (question.has_rendezvous_url || *size == 1) return answer;
  if (answer.launch.local_size == *size) answer.fallback = private_file(identity_of_job(env, family), env);
  return answer;
}

/// A text that the tasks of one step have in common and no other step has. A requeued job keeps its number, and jobs of
/// two clusters may have the same one.
std::string identity_of_step(const Environment& env) {
  std::string identity = "slurm";
  for (const char* name : {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
                           "SLURM_SRUN_COMM_PORT", "SLURM_STEP_LAUNCHER_PORT"})
    identity += " " + env.text(name).value_or("");
  return identity;
}

/// A task of a Slurm step. In a batch script outside of srun most of these variables are set too, with one process.
std::optional<Answer> slurm_variables(Question& question) {
  const Environment& env = question.env;
  if (!is_slurm_step(env)) return std::nullopt;
  const auto rank = env.number("SLURM_PROCID");
  const auto size = env.number("SLURM_STEP_NUM_TASKS");
  if (!rank) {
    question.complaints.push_back("SLURM_STEP_NUM_TASKS is set, but SLURM_PROCID is not");
    return std::nullopt;
  }
  Answer answer;
  answer.launch = {.rank = *rank, .size = *size, .source = slurm_step};
  answer.launch.local_rank = env.number("SLURM_LOCALID").value_or(-1);
  const auto tasks = env.text("SLURM_STEP_TASKS_PER_NODE");
  if (const auto node = env.number("SLURM_NODEID"); node && tasks)
    answer.launch.local_size = tasks_on_node(*tasks, *node).value_or(-1);
  answer.names = "SLURM_PROCID and SLURM_STEP_NUM_TASKS";
  answer.remedy =
      "SLURM_STEP_NODELIST and SLURM_JOB_NODELIST are not set: set MASTER_ADDR and MASTER_PORT, or TUTTI_RDZV";
  if (question.has_rendezvous_url || *size == 1) return answer;

  // On one node no other host needs to reach the store. A port derived from the step's number could also be another
  // step's.
  if (answer.launch.local_size == *size && !env.has("MASTER_ADDR") && !env.has("MASTER_PORT")) {
    answer.fallback = private_file(identity_of_step(env), env);
    return answer;
  }
  std::string host = env.text("MASTER_ADDR").value_or(answer.launch.local_size == *size ? "127.0.0.1" : "");
  for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
    if (const auto hosts = env.text(list); hosts && host.empty()) host = expand_hostlist(*hosts).front();
  if (host.empty()) return answer;
  // Below 32768, where the kernel takes no ports for clients. The same for all tasks, different for most jobs.
  const std::string step = env.text("SLURM_JOB_ID").value_or("") + "." + env.text("SLURM_STEP_ID").value();
  const auto port = static_cast<std::uint16_t>(20'000 + fnv1a(step) % 10'000);
  const auto chosen = env.text("MASTER_PORT");
  const Endpoint endpoint{host, chosen ? parse_port(*chosen, "MASTER_PORT") : port};
  answer.fallback = RendezvousUrl{"tcp://" + to_string(endpoint)};
  return answer;
}

/// A pod of an indexed job (also JobSet's and Kubeflow's): it knows its index, and the manifest gives the number of
/// pods.
std::optional<Answer> kubernetes_variables(Question& question) {
  const Environment& env = question.env;
  const auto rank = env.number("JOB_COMPLETION_INDEX");
  if (!rank) return std::nullopt;
  const auto tutti_size = env.number("TUTTI_SIZE");
  const auto world_size = env.number("WORLD_SIZE");
  if (tutti_size && world_size && *tutti_size != *world_size)
    throw wrong(fmt::format("TUTTI_SIZE is {}, but WORLD_SIZE is {}; unset one of them.", *tutti_size, *world_size));
  auto size = tutti_size ? tutti_size : world_size;
  if (!size && env.text("PET_NPROC_PER_NODE") == "1") size = env.number("PET_NNODES");
  if (!size) {
    question.complaints.push_back(
        "JOB_COMPLETION_INDEX is set, but neither TUTTI_SIZE nor WORLD_SIZE (the job's completions) is");
    return std::nullopt;
  }
  Answer answer;
  answer.launch = {.rank = *rank, .size = *size, .source = "Kubernetes indexed job"};
  answer.names = fmt::format("JOB_COMPLETION_INDEX and {}", tutti_size   ? "TUTTI_SIZE"
                                                            : world_size ? "WORLD_SIZE"
                                                                         : "PET_NNODES");
  answer.remedy = "set TUTTI_RDZV=tcp://<job>-0.<headless service>:port";
  const auto host = env.text("PET_MASTER_ADDR");
  const auto port = env.text("PET_MASTER_PORT");
  if (host && port)
    answer.fallback = RendezvousUrl{"tcp://" + to_string({*host, parse_port(*port, "PET_MASTER_PORT")})};
  return answer;
}

/// Asks all launchers' variables. If none is set, this process is alone.
Answer ask_launchers(Question& question) {
  if (auto answer = tutti_variables(question)) return *answer;
  if (auto answer = torch_variables(question)) return *answer;
  for (const MpiFamily& family : mpi_families)
    if (auto answer = mpi_variables(question, family)) return *answer;
  if (auto answer = slurm_variables(question)) return *answer;
  if (auto answer = kubernetes_variables(question)) return *answer;
  if (question.env.has("PMIX_RANK"))
    question.complaints.push_back("PMIX_RANK is set, but no size: set TUTTI_RANK and TUTTI_SIZE");
  for (const char* name : {"TUTTI_RDZV", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE"})
    if (question.what == MeetFor::communicator && !question.has_rank && question.env.has(name))
      question.complaints.push_back(fmt::format("{} is set, but no rank: set TUTTI_RANK and TUTTI_SIZE", name));
  Answer alone;
  alone.launch.source = "nothing: a single process";
  return alone;
}

Answer ask(Question& question, bool torch_only) {
  Answer answer;
  if (!torch_only)
    answer = ask_launchers(question);
  else if (auto torch = torch_variables(question))
    answer = *torch;
  else
    question.complaints.push_back("env:// takes RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  if (answer.names.empty() && !question.complaints.empty())
    throw wrong(fmt::format("cannot tell this process's rank: {}.", fmt::join(question.complaints, "; ")));
  return answer;
}

void check_places(const Launch& launch, const std::string& names) {
  if (launch.size < 1) throw wrong(fmt::format("{}: a size of {} is too small.", names, launch.size));
  if (launch.size > most_ranks_of_job)
    throw wrong(fmt::format("{}: a job has {} ranks at most, and not {}.", names, most_ranks_of_job, launch.size));
  if (launch.rank < 0 || launch.rank >= launch.size)
    throw wrong(
        fmt::format("{}: rank {} is not one of {} (0 to {}).", names, launch.rank, launch.size, launch.size - 1));
  if (launch.local_size == 0 || launch.local_size > launch.size)
    throw wrong(fmt::format("{} from {}: {} ranks on this host cannot be part of {}.", names, launch.source,
                            launch.local_size, launch.size));
  if (launch.local_size > 0 && launch.local_rank >= launch.local_size)
    throw wrong(fmt::format("{} from {}: local rank {} is not one of {}.", names, launch.source, launch.local_rank,
                            launch.local_size));
}

/// Each rank has the variables, and the program, that somebody gave to it alone.
bool is_by_hand(const Launch& launch) {
  return launch.source == "TUTTI_*" || launch.source == "env://" || launch.source == "options";
}

/// True where the store's keys are those of this process's Slurm step. Of the ranks that mpirun starts on several
/// hosts, some are in a step of its daemons, and some in none. Ranks given by hand are the tasks of one step if there
/// are as many; a job's name says more, and a program's own store is shared with those whom it chose.
bool step_has_keys(const Environment& env, const ConnectOptions& options, const Launch& launch, bool named) {
  if (launch.source == slurm_step) return true;
  return is_by_hand(launch) && !named && !options.store && is_slurm_step(env) &&
         env.number("SLURM_STEP_NUM_TASKS") == launch.size;
}

/// Separates jobs that share a store, and the restarts of one job.
std::string prefix_of(const Environment& env, const ConnectOptions& options, const Launch& launch) {
  const std::string name = options.job.empty() ? env.text("TUTTI_JOB").value_or("") : options.job;
  std::string prefix = "tutti";
  if (const auto restart = env.text("TORCHELASTIC_RESTART_COUNT"))
    prefix = fmt::format("/worker/attempt_{}/tutti/{}", *restart, env.text("TORCHELASTIC_RUN_ID").value_or(""));
  else if (step_has_keys(env, options, launch, !name.empty()))
    prefix += fmt::format("/slurm-{}.{}", env.text("SLURM_JOB_ID").value_or(""), env.text("SLURM_STEP_ID").value());
  return name.empty() ? prefix : prefix + "/" + name;
}

/// Rank and size: from the options if given, otherwise from the launcher.
Answer find_places(const ConnectOptions& options, const Environment& env, MeetFor what) {
  if (options.rank && options.size) {
    Answer answer;
    answer.launch = {.rank = *options.rank, .size = *options.size, .source = "options"};
    answer.names = "the given rank and size";
    answer.remedy = "give a rendezvous address, or set TUTTI_RDZV";
    return answer;
  }
  const std::string url = options.rendezvous.empty() ? env.text("TUTTI_RDZV").value_or("") : options.rendezvous;
  Question question{
      .env = env,
      .what = what,
      .has_rendezvous_url = options.store || !url.empty() || (env.has("MASTER_ADDR") && env.has("MASTER_PORT")),
      .has_rank = options.rank || options.size};
  Answer answer = ask(question, url == "env://");
  if (options.rank || options.size) {
    if (answer.names.empty())
      throw wrong(fmt::format("the {} is given, but the {} is not, and no launcher's variables say it.",
                              options.rank ? "rank" : "size", options.rank ? "size" : "rank"));
    answer.launch.rank = options.rank.value_or(answer.launch.rank);
    answer.launch.size = options.size.value_or(answer.launch.size);
    answer.names = "the given " + std::string{options.rank ? "rank" : "size"} + " and " + answer.names;
  }
  return answer;
}

RendezvousUrl find_rendezvous_url(const ConnectOptions& options, const Environment& env, Answer& answer) {
  if (!options.rendezvous.empty()) return parse_rendezvous_url(options.rendezvous, "the rendezvous address", env);
  if (auto told = rendezvous_url_from(env)) return *std::move(told);
  if (answer.fallback) return *std::move(answer.fallback);
  const bool host = env.has("MASTER_ADDR");
  const std::string half = host == env.has("MASTER_PORT") ? ""
                                                          : fmt::format("MASTER_{} is set, but MASTER_{} is not; ",
                                                                        host ? "ADDR" : "PORT", host ? "PORT" : "ADDR");
  throw wrong(fmt::format("rank {} of {} ({}) does not know where to meet the others: {}{}.", answer.launch.rank,
                          answer.launch.size, answer.launch.source, half, answer.remedy));
}

}  // namespace

Launch find_launch(const ConnectOptions& options, const Lookup& environment, MeetFor what) {
  const Environment env{environment};
  Answer answer = find_places(options, env, what);
  Launch launch = answer.launch;
  check_places(launch, answer.names);
  launch.prefix = prefix_of(env, options, launch);
  if (options.store) return launch;
  const bool told = !options.rendezvous.empty() && options.rendezvous != "env://";
  const bool seen = what == MeetFor::store;
  // A rank whose options say that it is alone may be one of a job, which must not meet it at the job's place.
  const bool launched = seen && !options.size && rendezvous_url_from(env);
  if (launch.size == 1 && !told && !launched) return launch;

  const RendezvousUrl rdzv = find_rendezvous_url(options, env, answer);
  if (launch.size == 1 && !seen && !rdzv.served)
    return launch;  // at a store that is served already others may look for its keys
  launch.rendezvous = rdzv.url;
  launch.foreign = rdzv.foreign;
  launch.own_folder = rdzv.own_folder;
  const bool ranks_serve = rdzv.url.starts_with("tcp://") && !rdzv.served;
  launch.serve = ranks_serve && launch.rank == 0;
  launch.rank_0_serves = ranks_serve && launch.rank != 0 && !is_by_hand(launch);
  // Ranks may tell each other over a communicator when they open a store.
  launch.awaits_rank_0 = ranks_serve && launch.rank != 0 && what == MeetFor::communicator;
  return launch;
}

}  // namespace tutti::rendezvous
