// The best settings found for each library: BTL and fragment sizes, algorithms, binding, and an allocator that keeps
// the memory of large messages instead of mapping it again in every call (which halves their speed).

#include "cli/bench/compare_libraries/sides.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cli/base/own_path.h"
#include "cli/bench/compare_libraries/figures.h"
#include "cli/run/process.h"
#include "lib/base/collective_traits.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli::versus {
namespace {

using MeasuredCall = measure::MeasuredCall;
using Words = std::vector<std::string>;

struct Known {
  std::string_view name;
  std::string_view launcher;
  std::string_view packages;  ///< Debian's
};
constexpr Known known_rivals[] = {
    {"openmpi", "mpirun.openmpi", "libopenmpi-dev openmpi-bin"},
    {"mpich", "mpirun.mpich", "libmpich-dev mpich"},
    {"gloo", "", "libgloo-dev libhiredis-dev"},
};

bool can_run(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

bool has_launcher(const Known& rival) {
  if (rival.launcher.empty()) return true;
  try {
    tutti::cli::find_program(std::string{rival.launcher});
    return true;
  } catch (const StartError&) {
    return false;
  }
}

/// The folder in which this program was built, if it still exists; empty for an installed one.
std::string build_folder() {
  const std::string own = own_path();
  std::string here = own.substr(0, own.rfind('/'));
  return ::access((here + "/build.ninja").c_str(), F_OK) == 0 ? here : "";
}

/// The folder of the programs in the build or the installation.
std::string usual_folder() {
  const std::string own = own_path();
  const std::string here = own.substr(0, own.rfind('/'));
  return build_folder().empty() ? here + "/../libexec/tutti" : here + "/cli/bench/compare_libraries/rivals";
}

/// How to build the program of a side that is missing.
std::string remedy(std::string_view packages) {
  const std::string folder = build_folder();
  if (folder.empty()) return fmt::format("It is built where {} are installed (Debian's names)", packages);
  return fmt::format(
      "Build it: ninja -C {0}. If that does not make it, install {1} (Debian's names), then: meson setup --reconfigure "
      "{0} && ninja -C {0}",
      folder, packages);
}

const Known& find_peer(const std::string& name) {
  std::vector<std::string_view> names{"all"};
  for (const Known& rival : known_rivals) {
    if (rival.name == name) return rival;
    names.push_back(rival.name);
  }
  throw Error{ErrorCode::invalid_argument,
              fmt::format("bench: no library \"{}\".{} Known are openmpi, mpich and gloo; all takes the installed ones",
                          name, did_you_mean(name, names))};
}

const Words& keep_memory() {
  static const Words variables{"MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=8589934592"};
  return variables;
}

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

bool is_all_reduce(MeasuredCall call) { return call == Collective::all_reduce || call == measure::all_reduce_in_place; }

std::vector<Setting> of_openmpi(const Line& line) {
  const Words environment = joined(keep_memory(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  const Words shipped{"mpirun.openmpi", "--oversubscribe", "-n", std::to_string(line.ranks)};
  const Words bound = joined(shipped, {"--mca", "pml", "ob1", "--bind-to", "core:overload-allowed"});
  const Words linear{"--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "1"};
  std::vector<Setting> settings;
  if (line.transport == "shm") {
    const Words copying =
        joined(bound, {"--mca", "btl", "vader,self", "--mca", "btl_vader_single_copy_mechanism", "none"});
    settings.push_back({"openmpi", "copy", copying, environment});
    if (is_all_reduce(line.call)) settings.push_back({"openmpi", "copy+linear", joined(copying, linear), environment});
    settings.push_back(
        {"openmpi", "as-shipped", shipped, {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}});
    return settings;
  }
  const Words tcp = joined(
      bound, {"--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", "--mca", "btl_tcp_eager_limit", "131072",
              "--mca", "btl_tcp_rndv_eager_limit", "131072", "--mca", "btl_tcp_max_send_size", "262144"});
  settings.push_back({"openmpi", "tcp", tcp, environment});
  if (is_all_reduce(line.call) || line.call == Collective::broadcast)
    settings.push_back({"openmpi", "tcp+linear+binomial",
                        joined(joined(tcp, linear), {"--mca", "coll_tuned_bcast_algorithm", "6"}), environment});
  return settings;
}

std::vector<Setting> of_mpich(const Line& line, int cores) {
  const Words launcher{"mpirun.mpich", "-bind-to", line.ranks <= cores ? "core" : "none", "-n",
                       std::to_string(line.ranks)};
  if (line.transport == "shm") return {{"mpich", "ucx-posix", launcher, joined(keep_memory(), {"UCX_TLS=posix,self"})}};
  return {{"mpich", "ucx-tcp", launcher,
           joined(keep_memory(),
                  {"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo", "UCX_RNDV_THRESH=256k"})}};
}

Words tutti_run(const Line& line, const std::string& binding) {
  return {own_path(), "run", "-n", std::to_string(line.ranks), "--no-label", "--bind-to", binding};
}

std::vector<Setting> of_gloo(const Line& line, int cores) {
  if (!Sides::has("gloo", line)) return {};
  Words names{"plain"};
  if (is_all_reduce(line.call)) {
    const std::string waiting = line.ranks <= cores ? "+poll" : "+sync";
    names = {"halving_doubling" + waiting, "ring_chunked" + waiting};
    if (line.ranks > 8) names = {"ring", "bcube", names[0]};
  }
  std::vector<Setting> settings;
  // Its threads wake each other, so they must not be bound to one core.
  for (const std::string& name : names) settings.push_back({"gloo", name, tutti_run(line, "none"), {}});
  return settings;
}

std::vector<Setting> of_tutti(const Line& line, int cores) {
  const Words environment{"TUTTI_TRANSPORT=" + line.transport};
  std::vector<Setting> settings{{"tutti", "bound", tutti_run(line, "core"), environment},
                                {"tutti", "free", tutti_run(line, "none"), environment}};
  if (line.ranks > cores)
    settings.push_back({"tutti", "cyclic", joined(tutti_run(line, "core"), {"--map-by", "cyclic"}), environment});
  if (line.transport == "shm" && is_all_reduce(line.call))
    settings.push_back({"tutti", std::string{allocated}, tutti_run(line, "core"), environment});
  return settings;
}

}  // namespace

Sides::Sides(std::string folder, const std::vector<std::string>& names)
    : folder_(folder.empty() ? usual_folder() : std::move(folder)) {
  const bool all = std::find(names.begin(), names.end(), "all") != names.end();
  for (const std::string& name : names)
    if (name != "all") find_peer(name);
  for (const Known& rival : known_rivals) {
    const bool asked = std::find(names.begin(), names.end(), rival.name) != names.end();
    if (!asked && !all) continue;
    const bool built = can_run(program(std::string{rival.name}));
    if (built && has_launcher(rival)) {
      rivals_.emplace_back(rival.name);
    } else if (asked) {
      const std::string what_to_do =
          built ? fmt::format("there is no {} in PATH. On Debian install {}", rival.launcher, rival.packages)
                : fmt::format("there is no {}. {}", program(std::string{rival.name}), remedy(rival.packages));
      throw Error{ErrorCode::unsupported, fmt::format("bench: {} is not installed: {}", rival.name, what_to_do)};
    }
  }
  if (rivals_.empty())
    throw Error{
        ErrorCode::unsupported,
        "bench: no other library is installed. " +
            remedy("libopenmpi-dev and openmpi-bin, libmpich-dev and mpich, or libgloo-dev and libhiredis-dev")};
  for (const std::string side : {"tutti", "limit"})
    if (!can_run(program(side)))
      throw Error{ErrorCode::unsupported, fmt::format("bench: cannot compare: there is no {}. {}", program(side),
                                                      remedy("the development packages of a library to compare with"))};
}

std::string Sides::program(const std::string& side) const {
  return folder_ + "/tutti-rival-" + (side == "tutti" ? "self" : side);
}

std::vector<Setting> Sides::settings(const Line& line, int cores) const {
  std::vector<Setting> all = of_tutti(line, cores);
  const auto take = [&](const std::vector<Setting>& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (const std::string& rival : rivals_) {
    if (rival == "openmpi") take(of_openmpi(line));
    if (rival == "mpich") take(of_mpich(line, cores));
    if (rival == "gloo") take(of_gloo(line, cores));
  }
  take({{"limit", "model", {}, {}}});
  return all;
}

bool Sides::has(const std::string& side, const Line& line) {
  return side != "gloo" || (line.transport == "tcp" && !line.call.traits().is_scan());
}

std::vector<std::size_t> Sides::sizes(const std::string& side, const Line& line, int cores) const {
  std::vector<std::size_t> sizes = line.sizes;
  // MPICH never yields while it waits. With more ranks than cores each step takes scheduler ticks, and large messages
  // minutes.
  if (side == "mpich" && line.ranks > cores) std::erase_if(sizes, [](std::size_t size) { return size > 1 << 20; });
  return sizes;
}

std::string Sides::remark(const std::string& side, const Line& line, int cores) const {
  if (side == "gloo" && line.transport != "tcp") return "gloo has no shared memory and is compared over tcp only";
  if (!has(side, line)) return fmt::format("{} has no {} and is left out there", side, name_of(line.call));
  if (sizes(side, line, cores).size() < line.sizes.size())
    return fmt::format("{} is left out above 1 MiB where ranks outnumber cores: it never yields", side);
  return "";
}

}  // namespace tutti::cli::versus
