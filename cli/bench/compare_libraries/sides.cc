#include "cli/bench/compare_libraries/sides.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "cli/base/own_path.h"
#include "cli/bench/compare_libraries/figures.h"
#include "cli/bench/compare_libraries/hosts.h"
#include "cli/run/process.h"
#include "lib/base/collective_traits.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti::cli::versus {
namespace {

struct Known {
  std::string_view name;
  std::string_view launcher;  ///< in PATH, or in the bin of a private installation
  std::string_view packages;  ///< Debian's; empty: tools/peers/install makes a private installation
  bool is_private() const { return packages.empty(); }
};
constexpr Known known_rivals[] = {
    {"openmpi", "mpirun.openmpi", "libopenmpi-dev openmpi-bin"},
    {"mpich", "mpirun.mpich", "libmpich-dev mpich"},
    {"gloo", "", "libgloo-dev libhiredis-dev"},
    {"impi", "mpiexec.hydra", ""},
    {"openmpi5", "mpirun", ""},
    {"mpich5", "mpiexec", ""},
    {"torch-gloo", "python", ""},
    {"nccl", "python", ""},
    {"torch-symm", "python", ""},
};

/// The private installation in which a library is.
std::string_view home_of(std::string_view side) { return side == "torch-symm" ? "torch-gloo" : side; }

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
bool can_run(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

bool has_launcher(const Known& rival, const Places& places) {
  if (rival.launcher.empty()) return true;
  if (rival.is_private())
    return can_run(fmt::format("{}/{}/bin/{}", places.peers, home_of(rival.name), rival.launcher));
  try {
    tutti::cli::find_program(std::string{rival.launcher});
    return true;
  } catch (const StartError&) {
    return false;
  }
}

std::string own_folder() {
  const std::string own = own_path();
  return own.substr(0, own.rfind('/'));
}

/// The folder in which this program was built, if it still exists; empty for an installed one.
std::string build_folder() {
  const std::string here = own_folder();
  return is_there(here + "/build.ninja") ? here : "";
}

/// The folder of the programs in the build or the installation.
std::string usual_folder() {
  return build_folder().empty() ? own_folder() + "/../libexec/tutti"
                                : build_folder() + "/cli/bench/compare_libraries/rivals";
}

/// Build folders lie in the checkout, and so do the private installations.
std::string usual_peers() { return own_folder() + "/../build-peers"; }

/// How to build the program of a side that is missing.
std::string remedy(std::string_view packages) {
  const std::string folder = build_folder();
  if (folder.empty()) return fmt::format("It is built where {} are installed (Debian's names)", packages);
  return fmt::format(
      "Build it: ninja -C {0}. If that does not make it, install {1} (Debian's names), then: meson setup --reconfigure "
      "{0} && ninja -C {0}",
      folder, packages);
}

std::string private_remedy(const Known& rival, bool built, const Places& places) {
  const std::string what =
      built ? fmt::format("there is no {}/{}/bin/{}", places.peers, home_of(rival.name), rival.launcher)
            : "it was not built";
  const std::string folder = build_folder();
  return fmt::format("{}. In the checkout run: tools/peers/install{} {}; --peers-dir tells where it is otherwise", what,
                     folder.empty() ? "" : " --build " + folder, home_of(rival.name));
}

const Known& find_peer(const std::string& name) {
  std::vector<std::string_view> names{"all"};
  for (const Known& rival : known_rivals) {
    if (rival.name == name) return rival;
    names.push_back(rival.name);
  }
  std::string list;
  for (const Known& rival : known_rivals)
    list += fmt::format("{}{}", list.empty() ? "" : &rival == std::end(known_rivals) - 1 ? " and " : ", ", rival.name);
  throw Error{ErrorCode::invalid_argument,
              fmt::format("bench: no library \"{}\".{} Known are {}; all takes the installed ones", name,
                          did_you_mean(name, names), list)};
}

bool is_gloo(const std::string& side) { return side == "gloo" || side == "torch-gloo"; }
bool is_of_gpus(const std::string& side) { return side == "nccl" || side == "torch-symm"; }
bool takes_gpus(const std::string& side) { return is_of_gpus(side) || side == "torch-gloo"; }

}  // namespace

Sides::Sides(const Folders& folders, const std::vector<std::string>& names)
    : folder_(folders.rivals.empty() ? usual_folder() : folders.rivals),
      places_{own_path(), folders.peers.empty() ? usual_peers() : folders.peers, folder_ + "/tutti-on-hosts"} {
  const bool all = std::find(names.begin(), names.end(), "all") != names.end();
  for (const std::string& name : names)
    if (name != "all") find_peer(name);
  for (const Known& rival : known_rivals) {
    const bool asked = std::find(names.begin(), names.end(), rival.name) != names.end();
    if (!asked && !all) continue;
    const bool built = can_run(program(std::string{rival.name}));
    if (built && has_launcher(rival, places_)) {
      rivals_.emplace_back(rival.name);
    } else if (asked) {
      const std::string what_to_do =
          rival.is_private() ? private_remedy(rival, built, places_)
          : built ? fmt::format("there is no {} in PATH. On Debian install {}", rival.launcher, rival.packages)
                  : fmt::format("there is no {}. {}", program(std::string{rival.name}), remedy(rival.packages));
      throw Error{ErrorCode::unsupported, fmt::format("bench: {} is not installed: {}", rival.name, what_to_do)};
    }
  }
  if (rivals_.empty())
    throw Error{
        ErrorCode::unsupported,
        "bench: no other library is installed. In a checkout tools/peers/install installs those of today. " +
            remedy("libopenmpi-dev and openmpi-bin, libmpich-dev and mpich, or libgloo-dev and libhiredis-dev")};
  for (const std::string side : {"tutti", "limit"})
    if (!can_run(program(side)))
      throw Error{ErrorCode::unsupported, fmt::format("bench: cannot compare: there is no {}. {}", program(side),
                                                      remedy("the development packages of a library to compare with"))};
}

std::string Sides::program(const std::string& side) const {
  const bool is_torch = side == own_in_torch || side == "torch-symm";
  const std::string name = side == "tutti" ? "self" : is_torch ? "torch-gloo" : side;
  return folder_ + "/tutti-rival-" + name;
}

std::vector<std::string> Sides::ask_version(const std::string& side) const {
  if (side != "torch-gloo" && side != "torch-symm" && side != own_in_torch) return {program(side), "--version"};
  std::vector<std::string> words{places_.peers + "/torch-gloo/bin/python", program(side), "--version"};
  if (side == own_in_torch) words.emplace_back("tutti");
  if (side == "torch-symm") words.emplace_back("symmetric");
  return words;
}

void Sides::compare_only(const std::vector<std::string>& rivals, bool with_own_in_torch) {
  rivals_ = rivals;
  has_own_in_torch_ = with_own_in_torch;
}

std::vector<Setting> Sides::settings(const Line& line, int cores) const {
  std::vector<std::string> sides{"tutti"};
  for (const std::string& rival : rivals_) {
    if (!has(rival, line)) continue;
    if (rival == "torch-gloo" && has_own_in_torch_) sides.emplace_back(own_in_torch);
    sides.push_back(rival);
  }
  if (hosts_of(line.transport) == 0) sides.emplace_back("limit");
  std::vector<Setting> all;
  for (const std::string& side : sides)
    for (Setting& setting : settings_of(side, line, cores, places_)) all.push_back(std::move(setting));
  return all;
}

bool Sides::has(const std::string& side, const Line& line) const {
  if (line.transport == "gpu") {
    if (side == "torch-symm") return is_all_reduce(line.call);
    return takes_gpus(side) && !line.call.traits().is_scan();
  }
  if (is_of_gpus(side)) return false;
  if (hosts_of(line.transport) > 0 && side != "gloo" && side != "openmpi5") return false;
  if (side == "impi" && line.transport == "tcp") return is_there(places_.peers + "/impi/lib/libfabric");
  if (side == "gloo" && line.transport == "shm") return false;
  return !is_gloo(side) || !line.call.traits().is_scan();
}

std::vector<std::size_t> Sides::sizes(const std::string& side, const Line& line, int cores) const {
  std::vector<std::size_t> sizes = line.sizes;
  // MPICH never yields while it waits, and MPICH 5 only in shared memory. With more ranks than cores each step takes
  // scheduler ticks, and large messages minutes.
  const bool never_yields = side == "mpich" || (side == "mpich5" && line.transport == "tcp");
  if (never_yields && line.ranks > cores) std::erase_if(sizes, [](std::size_t size) { return size > 1 << 20; });
  return sizes;
}

std::string Sides::remark(const std::string& side, const Line& line, int cores) const {
  if (line.transport == "gpu" && !takes_gpus(side))
    return fmt::format("{} is left out: it is compared on memory of the host only", side);
  if (line.transport != "gpu" && is_of_gpus(side))
    return fmt::format("{} is left out: it is compared on memory of GPUs only (--on gpu)", side);
  if (hosts_of(line.transport) > 0 && side != "gloo" && side != "openmpi5")
    return fmt::format("{} is not started on several hosts and is left out there; openmpi5 and gloo are", side);
  if (side == "gloo" && line.transport == "shm") return "gloo has no shared memory and is compared over tcp only";
  if (side == "impi" && !has(side, line))
    return "impi is left out over tcp: its package libfabric, which does that, is not installed";
  if (!has(side, line)) return fmt::format("{} has no {} and is left out there", side, name_of(line.call));
  if (sizes(side, line, cores).size() < line.sizes.size())
    return fmt::format("{} is left out above 1 MiB where ranks outnumber cores: it never yields", side);
  // What a program of torch.distributed gets on one host is compared, whatever its backend uses.
  if (side == "torch-gloo" && line.transport == "shm")
    return "torch-gloo has no shared memory: with --transport shm it uses TCP";
  return "";
}

}  // namespace tutti::cli::versus
