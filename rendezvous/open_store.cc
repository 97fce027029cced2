// Opens the store at the place where ranks meet.

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "lib/base/clocks.h"
#include "lib/base/fork_mark.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/file_store.h"
#include "rendezvous/launchers.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/patience.h"
#include "rendezvous/store_errors.h"
#include "rendezvous/store_socket.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_store.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

/// Remembered between calls: how often each of this process's ranks has opened a store at each place (so that a second
/// communicator does not find the first one's keys), and which servers run (so that it does not find its own port
/// taken). All ranks open equally often and in the same order, so their numbers agree. A try that finds nobody there,
/// or a rank 0 that has not come that often, does not count, since a rank may try until rank 0 is there; one that is
/// refused there does. So numbers differ where rank 0, which serves, has opened its store, and another rank does not
/// reach it.
class Memory {
 public:
  int count_opening(const Launch& launch) {
    const std::lock_guard lock{mutex_};
    return openings_[name_of(launch)]++;
  }

  /// The opening of that number has found nobody. If another one has begun meanwhile, numbers stay as they are.
  void take_back(const Launch& launch, int opening) {
    const std::lock_guard lock{mutex_};
    if (int& count = openings_[name_of(launch)]; count == opening + 1) count = opening;
  }

  std::shared_ptr<TcpStoreServer> serve(const Endpoint& endpoint, Deadline deadline,
                                        const AccessPolicy& access_policy) {
    const std::string place = to_string(endpoint);
    if (auto server = find_server(place)) return server;
    // May take long and run the program's functions, which may open stores, too; so nothing is locked.
    Resolved addresses = await_addresses(endpoint, deadline);
    const std::lock_guard lock{mutex_};
    auto server = servers_[place].lock();
    if (!server)
      servers_[place] = server =
          std::make_shared<TcpStoreServer>(endpoint, ServerLimits{}, std::move(addresses), access_policy);
    return server;
  }

  /// A server holds its port until it has ended. Nobody who wants to serve there next comes in between.
  void end(std::shared_ptr<TcpStoreServer>& server) {
    const std::lock_guard lock{mutex_};
    server.reset();
  }

 private:
  static std::string name_of(const Launch& launch) {
    return fmt::format("{} {} {}", launch.rank, launch.rendezvous, launch.prefix);
  }

  std::shared_ptr<TcpStoreServer> find_server(const std::string& place) {
    const std::lock_guard lock{mutex_};
    return servers_[place].lock();
  }

  std::mutex mutex_;
  std::map<std::string, int> openings_;
  std::map<std::string, std::weak_ptr<TcpStoreServer>> servers_;
};

Memory& memory() {
  static Memory& memory = *new Memory;  // never destroyed, since threads may still use it at the end
  return memory;
}

/// Rank 0 would serve where ranks of other hosts cannot reach it, and all would wait until their deadline.
void refuse_hidden_loopback(const Launch& launch, const Endpoint& endpoint, Deadline deadline, const Log& log) {
  if (launch.local_size == launch.size) return;
  const std::string address = hidden_loopback(endpoint, deadline);
  if (address.empty()) return;
  const std::string what = fmt::format(
      "{} means {} on this host (see /etc/hosts), where ranks on other hosts cannot reach rank 0; name an address of a "
      "network interface instead, for example from \"tutti doctor\"",
      launch.rendezvous, address);
  if (launch.local_size > 0) throw Error{ErrorCode::invalid_argument, what};
  log.warn(what + " (harmless if all ranks run on this host)");
}

/// The server of rank 0, and its own store there.
struct Served {
  std::shared_ptr<TcpStoreServer> server;
  std::shared_ptr<Store> store;
  ForkMark mark;

  ~Served() {
    store.reset();
    if (mark.is_here()) memory().end(server);  // else a thread may have held its lock that is not in this process
  }
};

/// The key that rank 0 sets when it has opened its store of that number. It is outside of what programs list.
std::string opened_key(const Launch& launch, int opening) { return fmt::format(".{} {}", opening, launch.prefix); }

/// The server that a rank finds may be that of rank 0's last store, and end with it. So it waits there until rank 0 has
/// opened the next one, and looks for the next server if this one ends.
std::shared_ptr<Store> connect_when_opened(const Launch& launch, int opening, const Endpoint& endpoint,
                                           Store::Milliseconds timeout, const AccessPolicy& access_policy) {
  const std::string opened = opened_key(launch, opening);
  const Deadline deadline = deadline_after(timeout);
  int losses_left = 10;   // a rank that loses more connections than that is refused
  int refusals_left = 3;  // a server that ends may refuse one
  for (Patience patience{deadline};; patience.pause()) {
    bool is_connected = false;
    try {
      auto store = connect_tcp_store(endpoint, time_left(deadline), access_policy);
      is_connected = true;
      store->wait_for({&opened, 1}, time_left(deadline));
      store->set_timeout(timeout);
      return store;
    } catch (const NoStoreThere&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::rendezvous) throw;
      if (patience.is_over())
        throw NoStoreThere{error.code(),
                           fmt::format("rank 0 did not open its store number {} at {} within {}. ({})", opening + 1,
                                       launch.rendezvous, in_seconds(timeout), error.what())};
      if (--(is_connected ? losses_left : refusals_left) == 0) throw;
    }
  }
}

std::shared_ptr<Store> serve(const Endpoint& endpoint, Store::Milliseconds timeout, const AccessPolicy& access_policy,
                             const Log& log) {
  const auto served = std::make_shared<Served>();
  served->server = memory().serve(endpoint, deadline_after(timeout), access_policy);
  if (!served->server->is_on_loopback() && !served->server->has_secret())
    log.warn("everybody who can reach " + to_string(served->server->endpoint()) + " can join this job (insecure)");
  served->store = connect_tcp_store(served->server->endpoint(), timeout, access_policy);
  return {served, served->store.get()};
}

std::shared_ptr<Store> open_tcp(const Launch& launch, int opening, const Endpoint& endpoint,
                                Store::Milliseconds timeout, const AccessPolicy& access_policy, const Log& log) {
  if (endpoint.port == 0)
    throw Error{
        ErrorCode::invalid_argument,
        fmt::format("{}: port 0 lets the system choose a port, which others cannot know. Name a free port, or start "
                    "the ranks with `tutti run`.",
                    launch.rendezvous)};
  if (!launch.serve && launch.foreign)
    return connect_tcp_store(endpoint, timeout, {.insecure = access_policy.insecure});
  if (launch.rank_0_serves) {  // or it is refused that, and others wait for it
    const Resolved resolved = resolve(endpoint, deadline_after(timeout));
    if (!resolved.addresses.empty()) check_access(resolved.addresses.front(), access_policy);
  }
  if (launch.awaits_rank_0 && opening > 0)
    return connect_when_opened(launch, opening, endpoint, timeout, access_policy);
  if (launch.serve) refuse_hidden_loopback(launch, endpoint, deadline_after(timeout), log);
  auto store =
      launch.serve ? serve(endpoint, timeout, access_policy, log) : connect_tcp_store(endpoint, timeout, access_policy);
  if (launch.rank == 0 && launch.size > 1 && opening > 0) store->set(opened_key(launch, opening), "");
  return store;
}

std::shared_ptr<Store> open_numbered(const Launch& launch, int opening, Store::Milliseconds timeout,
                                     const AccessPolicy& access_policy, const Log& log) {
  constexpr std::string_view tcp = "tcp://";
  constexpr std::string_view file = "file://";
  const std::string& url = launch.rendezvous;
  const std::string number = opening == 0 ? "" : fmt::format(".{}", opening);
  if (url.starts_with(file))
    return open_file_store(url.substr(file.size()) + number, launch.size, timeout, launch.own_folder,
                           access_policy.secret.empty() ? FileGuard::user : FileGuard::secret);
  if (!url.starts_with(tcp))
    throw Error{ErrorCode::invalid_argument, fmt::format("\"{}\" is not a rendezvous URL.", url)};
  auto store = open_tcp(launch, opening, parse_endpoint(std::string_view{url}.substr(tcp.size()), "the rendezvous"),
                        timeout, access_policy, log);
  return opening == 0 ? store : prefix_store(number, std::move(store));
}

}  // namespace

std::shared_ptr<Store> open_store(const Launch& launch, Store::Milliseconds timeout, const AccessPolicy& access_policy,
                                  const Log& log) {
  if (launch.rendezvous.empty()) {
    auto store = open_memory_store("the store of a rank that is alone and has no rendezvous");
    store->set_timeout(timeout);
    return store;
  }
  const int opening = memory().count_opening(launch);
  try {
    return open_numbered(launch, opening, timeout, access_policy, log);
  } catch (const NoStoreThere&) {
    memory().take_back(launch, opening);
    throw;
  }
}

}  // namespace tutti::rendezvous
