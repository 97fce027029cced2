#include "cli/bench/compare_libraries/hosts.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>

#include "tutti/error.h"

namespace tutti::cli::versus {
namespace {

std::string network_of(int host) { return fmt::format("/run/netns/host{}", host); }

}  // namespace

int hosts_of(const std::string& transport) {
  constexpr std::string_view word = "hosts:";
  if (!transport.starts_with(word)) return 0;
  int hosts = 0;
  const char* const end = transport.data() + transport.size();
  const auto [rest, error] = std::from_chars(transport.data() + word.size(), end, hosts);
  return error == std::errc{} && rest == end && hosts >= 2 && hosts <= most_hosts ? hosts : 0;
}

void require_hosts(int hosts) {
  for (int host = 0; host < hosts; ++host)
    if (::access(network_of(host).c_str(), F_OK) != 0)
      throw Error{
          ErrorCode::invalid_argument,
          fmt::format("bench: there is no {}, the network of host {}. In the checkout run: tools/hosts {} --once "
                      "tutti bench ...",
                      network_of(host), host, hosts)};
}

std::vector<std::string> run_on_hosts(const Line& line, const std::vector<std::string>& options, const Places& places) {
  const int hosts = hosts_of(line.transport);
  std::vector<std::string> words{places.on_hosts, "run", std::to_string(hosts), std::to_string(line.ranks / hosts),
                                 places.tutti};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::vector<std::string> mpirun_on_hosts(const Line& line, const std::string& launcher, const Places& places) {
  const int hosts = hosts_of(line.transport);
  std::string list;
  for (int host = 0; host < hosts; ++host)
    list += fmt::format("{}10.77.0.{}:{}", host == 0 ? "" : ",", host + 1, line.ranks / hosts);
  return {places.on_hosts,
          "exec",
          "0",
          launcher,
          "--host",
          list,
          "--prtemca",
          "plm_ssh_agent",
          places.on_hosts + " ssh",
          "-n",
          std::to_string(line.ranks)};
}

}  // namespace tutti::cli::versus
