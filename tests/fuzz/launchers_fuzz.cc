// What launchers put into the environment. The input is lines NAME=value; an empty line ends them, and the rest is a
// list of hosts, or of tasks per node.

#include <map>

#include "rendezvous/interfaces.h"
#include "rendezvous/launchers.h"
#include "rendezvous/slurm.h"
#include "tests/fuzz/input.h"

using namespace tutti;
using namespace tutti::fuzz;
using namespace tutti::rendezvous;

namespace {

void try_launch(const Lookup& lookup) {
  ConnectOptions options;
  if (const auto url = lookup("OPTION_RDZV")) options.rendezvous = *url;
  const Launch launch = find_launch(options, lookup);
  require(launch.size >= 1);
  require(launch.rank >= 0 && launch.rank < launch.size);
  require(launch.size == 1 || !launch.rendezvous.empty());
  require(!launch.serve || launch.rank == 0);
}

void try_interfaces(const Lookup& lookup) {
  static const std::vector<Interface> all{{"lo", "127.0.0.1", true, true},
                                          {"eth0", "10.0.0.1", false, true},
                                          {"eth0", "fd00::1", false, true},
                                          {"ib0", "192.168.0.1", false, false}};
  const Interface chosen = choose_among(all, "10.0.0.1", {lookup}).interface;
  require(!chosen.address.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  std::map<std::string, std::string> variables;
  for (std::string_view line = input.word('\n'); !line.empty(); line = input.word('\n')) {
    const std::size_t end = std::min(line.find('='), line.size());
    variables[std::string{line.substr(0, end)}] = line.substr(std::min(end + 1, line.size()));
  }
  const Lookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional{found->second};
  };
  may_refuse([&] { try_launch(lookup); });
  may_refuse([&] { try_interfaces(lookup); });
  const std::string_view list = input.rest();
  may_refuse([&] { require(expand_hostlist(list).size() <= 65536); });
  const auto tasks = tasks_on_node(list, static_cast<int>(list.size() % 5));
  require(!tasks || *tasks >= 0);
  return 0;
}
