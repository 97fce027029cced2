#include <arpa/inet.h>
#include <errno.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>

#include "cli/doctor/doctor.h"
#include "lib/api/settings.h"
#include "lib/base/descriptor.h"
#include "lib/base/environment.h"
#include "lib/base/most_ranks.h"
#include "lib/failure/inject.h"
#include "lib/security/job_secret.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/interfaces.h"
#include "rendezvous/launchers.h"
#include "rendezvous/rendezvous_url.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

Finding interfaces() {
  std::vector<std::string> list;
  for (const rendezvous::Interface& one : rendezvous::interfaces()) {
    list.push_back(fmt::format("{} {}{}", one.name, one.address, one.up ? "" : " (down)"));
  }
  return {.level = list.empty() ? Level::fail : Level::ok,
          .what = "interfaces",
          .found = list.empty() ? "none" : fmt::format("{}", fmt::join(list, ", ")),
          .remedy = "ip link set lo up"};
}

/// Where this environment says that ranks meet; empty: nowhere, or it makes no sense, which other findings say.
std::string rendezvous_url() try {
  const rendezvous::Lookup lookup{variable};
  const auto url = rendezvous::rendezvous_url_from(rendezvous::Environment{lookup});
  return url ? url->url : "";
} catch (const Error&) {
  return {};
}

/// Why the host of the rendezvous is not known here; empty: it is, or there is none.
std::string resolver_trouble(const std::string& url) {
  constexpr std::string_view tcp = "tcp://";
  if (!url.starts_with(tcp)) return {};
  const rendezvous::Endpoint endpoint = rendezvous::parse_endpoint(std::string_view{url}.substr(tcp.size()), "");
  return rendezvous::resolve(endpoint, std::chrono::steady_clock::now() + std::chrono::seconds{5}).problem;
}

Finding chosen_interface() {
  Finding finding{.what = "address for peers", .found = {}, .remedy = {}};
  std::string url = rendezvous_url();
  const std::string trouble = resolver_trouble(url);
  if (!trouble.empty()) url.clear();
  try {
    const rendezvous::Interface chosen = rendezvous::choose_interface(url, {variable}).interface;
    finding.found = fmt::format("{} on {}{}", chosen.address, chosen.name,
                                url.empty() ? "" : fmt::format(" (the route to {})", url));
    if (trouble.empty()) return finding;
    finding.level = Level::warn;
    finding.found += fmt::format("; of the place where ranks meet: {}", trouble);
    finding.remedy = "name a host in TUTTI_RDZV or MASTER_ADDR that this one can resolve, or its address";
  } catch (const Error& error) {
    finding.level = Level::fail;
    finding.found = error.what();
    finding.remedy = "set TUTTI_SOCKET_IFNAME to one of the interfaces above, or unset it";
  }
  return finding;
}

/// A place to meet is of use to a launcher that is started here, and a program that is started here lacks a rank.
bool is_for_a_launcher() try {
  return rendezvous::find_launch({}, variable, rendezvous::MeetFor::nothing).size == 1;
} catch (const Error&) {
  return false;
}

Finding launcher() {
  Finding finding{.what = "launcher", .found = {}, .remedy = {}};
  try {
    const rendezvous::Launch launch = rendezvous::find_launch({}, variable);
    finding.found = launch.source.empty() || launch.size == 1
                        ? "none seen: a program started here is rank 0 of 1"
                        : fmt::format("rank {} of {}, says {}", launch.rank, launch.size, launch.source);
  } catch (const Error& error) {
    finding.level = is_for_a_launcher() ? Level::warn : Level::fail;
    finding.found = error.what();
    finding.remedy = "set the variables as this says, or unset those of a launcher that is not in use";
  }
  return finding;
}

Finding variables_set() {
  Finding finding{.what = "TUTTI_ variables", .found = {}, .remedy = {}};
  try {
    check_environment(::environ);
    settings::check_variables();
    const rendezvous::Lookup lookup{variable};
    if (const std::string url = variable("TUTTI_RDZV").value_or(""); !url.empty())
      rendezvous::parse_rendezvous_url(url, "TUTTI_RDZV", rendezvous::Environment{lookup});
    detail::parse_faults(variable("TUTTI_INJECT").value_or(""), most_ranks_of_job);
    std::vector<std::string_view> set;
    for (const Variable& one : variables()) {
      if (variable(one.name)) set.push_back(one.name);
    }
    finding.found = set.empty() ? "none set" : fmt::format("{}", fmt::join(set, ", "));
    if (!environment::is_on("TUTTI_TLS") || !job_secret().empty()) return finding;
    finding.level = Level::warn;
    finding.found += "; TUTTI_TLS=1 needs a secret, which only `tutti run` on one host makes by itself";
    finding.remedy = "set TUTTI_SECRET or TUTTI_SECRET_FILE, or unset TUTTI_TLS";
  } catch (const Error& error) {
    finding.level = Level::fail;
    finding.found = error.what();
    finding.remedy = "unset it, or give it a name and a value of docs/environment.md";
  }
  return finding;
}

std::string congestion_control(int fd) {
  std::array<char, 32> name{};
  socklen_t size = name.size();
  if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return "unknown";
  return name.data();
}

struct Connection {
  Descriptor client;
  Descriptor server;
};

/// Throws the name of the system call that failed.
Connection connect_to_ourselves() {
  Descriptor listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener || ::bind(listener.get(), generic, size) != 0) throw "bind";
  if (::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), generic, &size) != 0) throw "listen";
  Descriptor client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (::connect(client.get(), generic, size) != 0 && errno != EINPROGRESS) throw "connect";
  pollfd wait{listener.get(), POLLIN, 0};
  if (::poll(&wait, 1, 1000) != 1) throw "accept (nothing arrived within 1 s)";
  Descriptor server{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (!server) throw "accept";
  const int on = 1;
  for (const Descriptor* end : {&client, &server}) {
    ::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return {std::move(client), std::move(server)};
}

void hand_over(const Descriptor& from, const Descriptor& to) {
  char byte = 't';
  pollfd wait{to.get(), POLLIN, 0};
  if (::send(from.get(), &byte, 1, MSG_NOSIGNAL) != 1) throw "send";
  if (::poll(&wait, 1, 1000) != 1 || ::recv(to.get(), &byte, 1, 0) != 1) throw "recv (nothing arrived within 1 s)";
}

Finding loopback() {
  Finding finding{.what = "TCP over loopback", .found = {}, .remedy = {}};
  try {
    const Connection connection = connect_to_ourselves();
    constexpr int rounds = 200;
    hand_over(connection.client, connection.server);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
      hand_over(connection.client, connection.server);
      hand_over(connection.server, connection.client);
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    std::string available;
    std::ifstream file{"/proc/sys/net/ipv4/tcp_available_congestion_control"};
    std::getline(file, available);
    finding.found = fmt::format("works, {:.1f} us there and back in one process; congestion control {} (available: {})",
                                took.count() / rounds, congestion_control(connection.client.get()),
                                available.empty() ? "unknown" : available);
  } catch (const char* call) {
    finding.level = Level::fail;
    finding.found = fmt::format("{} failed: {}", call, ::strerror(errno));
    finding.remedy =
        "ip link set lo up; allow TCP on 127.0.0.1 in the firewall or sandbox; until then ranks of one host work if "
        "they "
        "share memory and meet in a file (TUTTI_RDZV=file:///path)";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_network() {
  return {variables_set(), interfaces(), chosen_interface(), launcher(), loopback()};
}

}  // namespace tutti::cli
