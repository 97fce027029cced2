// The best settings found for each library: transports and fragment sizes, algorithms, binding, ways of waiting, and an
// allocator that keeps the memory of large messages instead of mapping it again in every call (which halves their
// speed).

#include "cli/bench/compare_libraries/settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "cli/bench/compare_libraries/figures.h"
#include "cli/bench/compare_libraries/hosts.h"

namespace tutti::cli::versus {
namespace {

using MeasuredCall = measure::MeasuredCall;
using Words = std::vector<std::string>;

const Words& keep_memory() {
  static const Words variables{"MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=8589934592"};
  return variables;
}

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The calls for which MPIs have algorithms of their own for shared memory.
bool is_of_all_data(MeasuredCall call) {
  return is_all_reduce(call) || call == Collective::broadcast || call == Collective::reduce ||
         call == Collective::barrier;
}

/// The settings of one library, which have its launcher and environment in common.
class Settings {
 public:
  Settings(std::string side, Words launcher, Words environment)
      : side_(std::move(side)), launcher_(std::move(launcher)), environment_(std::move(environment)) {}

  void add(std::string_view name, const Words& words, const Words& variables) {
    all_.push_back({side_, std::string{name}, joined(launcher_, words), joined(environment_, variables)});
  }
  std::vector<Setting> take() { return std::move(all_); }

 private:
  std::string side_;
  Words launcher_;
  Words environment_;
  std::vector<Setting> all_;
};

std::string bin(const Places& places, std::string_view side, std::string_view program) {
  return fmt::format("{}/{}/bin/{}", places.peers, side, program);
}

/// Open MPI 4 of the system and Open MPI 5, which call the same things by different names.
struct OpenMpi {
  std::string side;
  std::string launcher;
  std::string memory;  ///< what shared memory is called
  Words copying;       ///< copy twice through shared memory, instead of once by the kernel
  Words environment;
};

OpenMpi openmpi_4() {
  return {"openmpi",
          "mpirun.openmpi",
          "vader,self",
          {"--mca", "btl_vader_single_copy_mechanism", "none"},
          {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}};
}

OpenMpi openmpi_5(const Places& places) {
  return {"openmpi5",
          bin(places, "openmpi5", "mpirun"),
          "sm,self",
          {"--mca", "smsc", "^cma"},
          {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1",
           "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1", fmt::format("OPAL_PREFIX={}/openmpi5", places.peers)}};
}

/// Its best over links: fragments as long as with TCP, ranks that yield, and collectives of two levels where it has
/// them.
std::vector<Setting> of_openmpi5_on_hosts(const OpenMpi& which, const Line& line, const Places& places) {
  Settings settings{which.side, mpirun_on_hosts(line, which.launcher, places),
                    joined(which.environment, {"OMPI_MCA_mpi_yield_when_idle=1"})};
  const Words usual{
      "--mca", "pml",   "ob1",  "--mca", "btl",       "tcp,sm,self",          "--mca", "btl_tcp_if_include",
      wire,    "--mca", "smsc", "^cma",  "--bind-to", "core:overload-allowed"};
  settings.add("tuned", usual, keep_memory());
  settings.add("han", joined(usual, {"--mca", "coll_han_priority", "100"}), keep_memory());
  settings.add(as_shipped, {"--mca", "btl_tcp_if_include", wire}, {});
  return settings.take();
}

std::vector<Setting> of_openmpi(const OpenMpi& which, const Line& line, int cores) {
  Settings settings{
      which.side, {which.launcher, "--oversubscribe", "-n", std::to_string(line.ranks)}, which.environment};
  const bool is_new = which.side == "openmpi5";
  const Words bound{"--mca", "pml", "ob1", "--bind-to", "core:overload-allowed"};
  const Words linear{"--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "1"};
  if (line.transport == "shm") {
    const Words memory = joined(bound, {"--mca", "btl", which.memory});
    const Words copying = joined(memory, which.copying);
    settings.add("copy", copying, keep_memory());
    if (is_all_reduce(line.call)) settings.add("copy+linear", joined(copying, linear), keep_memory());
    if (is_new) settings.add("single-copy", memory, keep_memory());
    // Its ranks do not yield while they wait.
    if (is_new && is_of_all_data(line.call) && line.ranks <= cores)
      settings.add("coll-sm",
                   joined(memory, {"--mca", "coll_sm_priority", "100", "--mca", "coll_sm_control_size", "64", "--mca",
                                   "coll_sm_fragment_size", "32768"}),
                   keep_memory());
    settings.add(as_shipped, {}, {});
    return settings.take();
  }
  const Words only_tcp{"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"};
  const Words tcp =
      joined(only_tcp, {"--bind-to", "core:overload-allowed", "--mca", "btl_tcp_eager_limit", "131072", "--mca",
                        "btl_tcp_rndv_eager_limit", "131072", "--mca", "btl_tcp_max_send_size", "262144"});
  settings.add("tcp", tcp, keep_memory());
  if (is_all_reduce(line.call) || line.call == Collective::broadcast)
    settings.add("tcp+linear+binomial", joined(joined(tcp, linear), {"--mca", "coll_tuned_bcast_algorithm", "6"}),
                 keep_memory());
  if (is_new) settings.add(as_shipped, only_tcp, {});
  return settings.take();
}

std::vector<Setting> of_mpich(const Line& line, int cores) {
  Settings settings{
      "mpich",
      {"mpirun.mpich", "-bind-to", line.ranks <= cores ? "core" : "none", "-n", std::to_string(line.ranks)},
      keep_memory()};
  if (line.transport == "shm") {
    settings.add("ucx-posix", {}, {"UCX_TLS=posix,self"});
  } else {
    settings.add("ucx-tcp", {},
                 {"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo", "UCX_RNDV_THRESH=256k"});
  }
  return settings.take();
}

std::vector<Setting> of_mpich5(const Line& line, int cores, const Places& places) {
  Settings settings{"mpich5", {bin(places, "mpich5", "mpiexec"), "-n", std::to_string(line.ranks)}, {}};
  const Words bound{"-bind-to", line.ranks <= cores ? "core" : "none"};
  const Words yielding{"MPIR_CVAR_POLLS_BEFORE_YIELD=1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE=true",
                       "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=1"};
  const Words usual = line.ranks <= cores ? keep_memory() : joined(keep_memory(), yielding);
  if (line.transport == "tcp") {
    // Its UCX finds no route over loopback where there is no other network, libfabric does.
    const Words only_tcp{"MPIR_CVAR_NOLOCAL=1", "MPIR_CVAR_CH4_NETMOD=ofi", "FI_PROVIDER=tcp", "FI_TCP_IFACE=lo"};
    settings.add("tcp", bound, joined(usual, only_tcp));
    settings.add(as_shipped, {}, only_tcp);
    return settings.take();
  }
  settings.add("posix", bound, usual);
  if (is_of_all_data(line.call)) {
    Words gathering = joined(usual, {"MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD=0"});
    for (const char* call : {"ALLREDUCE", "REDUCE", "BCAST", "BARRIER"})
      gathering.push_back(fmt::format("MPIR_CVAR_{}_POSIX_INTRA_ALGORITHM=release_gather", call));
    settings.add("release-gather", bound, gathering);
    settings.add("release-gather-1M", bound,
                 joined(gathering, {"MPIR_CVAR_REDUCE_INTRANODE_BUFFER_TOTAL_SIZE=1048576",
                                    "MPIR_CVAR_BCAST_INTRANODE_BUFFER_TOTAL_SIZE=1048576",
                                    "MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE=262144"}));
  }
  settings.add(as_shipped, {}, {});
  return settings.take();
}

std::vector<Setting> of_impi(const Line& line, int cores, const Places& places) {
  const std::string root = places.peers + "/impi";
  Settings settings{"impi",
                    {bin(places, "impi", "mpiexec.hydra"), "-n", std::to_string(line.ranks)},
                    {"I_MPI_ROOT=" + root, "FI_PROVIDER_PATH=" + root + "/lib/libfabric/prov"}};
  const bool crowded = line.ranks > cores;
  const Words usual = crowded ? joined(keep_memory(), {"I_MPI_THREAD_YIELD=2"}) : keep_memory();
  if (line.transport == "tcp") {
    // Without the last one its collectives use shared memory all the same.
    const Words only_tcp{"I_MPI_FABRICS=ofi", "FI_PROVIDER=tcp", "FI_TCP_IFACE=lo", "I_MPI_COLL_INTRANODE=pt2pt"};
    const Words loopback{"-iface", "lo"};
    settings.add("tcp", loopback, joined(usual, only_tcp));
    settings.add(as_shipped, loopback, only_tcp);
    return settings.take();
  }
  const Words memory = joined(usual, {"I_MPI_FABRICS=shm"});
  settings.add("shm", {}, memory);
  for (const char* kind : {"clx_avx512", "skx_avx512", "bdw_avx2"})
    settings.add(fmt::format("shm+{}", kind), {}, joined(memory, {fmt::format("I_MPI_SHM={}", kind)}));
  if (crowded) settings.add("shm+sleep", {}, joined(memory, {"I_MPI_WAIT_MODE=1", "I_MPI_PIN=0"}));
  settings.add(as_shipped, {}, {});
  return settings.take();
}

Words tutti_run(const Line& line, const std::string& binding, const Places& places) {
  if (hosts_of(line.transport) > 0) return run_on_hosts(line, {"--bind-to", binding}, places);
  return {places.tutti, "run", "-n", std::to_string(line.ranks), "--no-label", "--bind-to", binding};
}

std::vector<Setting> of_gloo(const Line& line, int cores, const Places& places) {
  Words names{"plain"};
  if (is_all_reduce(line.call)) {
    const std::string waiting = line.ranks <= cores ? "+poll" : "+sync";
    names = {"halving_doubling" + waiting, "ring_chunked" + waiting};
    if (line.ranks > 8) names = {"ring", "bcube", names[0]};
  }
  // Its threads wake each other, so they must not be bound to one core.
  const bool on_hosts = hosts_of(line.transport) > 0;
  Settings settings{"gloo", tutti_run(line, "none", places),
                    on_hosts ? Words{fmt::format("GLOO_SOCKET_IFNAME={}", wire)} : Words{}};
  for (const std::string& name : names) settings.add(name, {}, {});
  return settings.take();
}

/// torch.distributed, from Python.
std::vector<Setting> of_torch(std::string_view side, const Line& line, const Places& places) {
  const std::string python = bin(places, "torch-gloo", "python");
  const Words one_thread{"OMP_NUM_THREADS=1"};
  if (side == "torch-symm") {
    // It spins in kernels, and refuses ranks that share a GPU unless it is told to allow them.
    Settings settings{std::string{side},
                      joined(tutti_run(line, "none", places), {python}),
                      {"GLOO_SOCKET_IFNAME=lo", "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES=1"}};
    for (const char* name : {"one-shot", "two-shot"}) settings.add(name, {}, {});
    return settings.take();
  }
  if (side == own_in_torch) {
    const std::string transport = line.transport == "gpu" ? "shm" : line.transport;
    Settings settings{std::string{side}, {}, {"TUTTI_TRANSPORT=" + transport, "TUTTI_SOCKET_IFNAME=lo"}};
    settings.add("tutti", joined(tutti_run(line, "core", places), {python}), one_thread);
    settings.add("tutti-free", joined(tutti_run(line, "none", places), {python}), one_thread);
    return settings.take();
  }
  Settings settings{std::string{side}, {}, {"GLOO_SOCKET_IFNAME=lo"}};
  settings.add("one-thread", joined(tutti_run(line, "none", places), {python}), joined(one_thread, keep_memory()));
  settings.add("one-thread+bound", joined(tutti_run(line, "core", places), {python}),
               joined(one_thread, keep_memory()));
  settings.add(as_shipped, joined(tutti_run(line, "none", places), {python}), {});
  return settings.take();
}

/// NCCL lets ranks share a GPU from 2.30.3 on, if it is told to; few blocks leave room for the others' kernels.
std::vector<Setting> of_nccl(const Line& line, const Places& places) {
  Settings settings{"nccl", tutti_run(line, "none", places), {"NCCL_SOCKET_IFNAME=lo", "NCCL_MULTI_RANK_GPU_ENABLE=1"}};
  settings.add("few-blocks", {}, {"NCCL_MAX_CTAS=4"});
  settings.add(as_shipped, {}, {});
  return settings.take();
}

std::vector<Setting> of_tutti(const Line& line, int cores, const Places& places) {
  if (line.transport == "gpu") {
    Settings settings{"tutti", tutti_run(line, "core", places), {"TUTTI_TRANSPORT=shm"}};
    settings.add("plain", {}, {});
    settings.add("windows", {}, {});
    return settings.take();
  }
  const bool on_hosts = hosts_of(line.transport) > 0;
  Settings settings{"tutti", {}, on_hosts ? Words{} : Words{"TUTTI_TRANSPORT=" + line.transport}};
  settings.add("bound", tutti_run(line, "core", places), {});
  settings.add("free", tutti_run(line, "none", places), {});
  if (line.ranks > cores && !on_hosts)
    settings.add("cyclic", joined(tutti_run(line, "core", places), {"--map-by", "cyclic"}), {});
  if (line.transport == "shm" && is_all_reduce(line.call)) settings.add(allocated, tutti_run(line, "core", places), {});
  return settings.take();
}

}  // namespace

std::vector<Setting> settings_of(std::string_view side, const Line& line, int cores, const Places& places) {
  if (side == "tutti") return of_tutti(line, cores, places);
  if (side == "openmpi") return of_openmpi(openmpi_4(), line, cores);
  if (side == "openmpi5" && hosts_of(line.transport) > 0) return of_openmpi5_on_hosts(openmpi_5(places), line, places);
  if (side == "openmpi5") return of_openmpi(openmpi_5(places), line, cores);
  if (side == "mpich") return of_mpich(line, cores);
  if (side == "mpich5") return of_mpich5(line, cores, places);
  if (side == "impi") return of_impi(line, cores, places);
  if (side == "gloo") return of_gloo(line, cores, places);
  if (side == "nccl") return of_nccl(line, places);
  if (side == "torch-gloo" || side == "torch-symm" || side == own_in_torch) return of_torch(side, line, places);
  if (side == "limit") return {{"limit", "model", {}, {}}};
  throw std::logic_error(fmt::format("no side \"{}\"", side));
}

std::string_view shipped_setting(std::string_view side, const Point& point, int cores) {
  if (side == own_in_torch) return "tutti-free";
  if (side != "tutti") return as_shipped;
  if (point.transport == "gpu") return "plain";
  const int ranks_of_host = point.ranks / std::max(1, hosts_of(point.transport));
  return ranks_of_host <= cores ? "bound" : "free";
}

}  // namespace tutti::cli::versus
