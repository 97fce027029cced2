// A unique id, which programs pass on by a way of their own, is where their ranks meet.
//
// An id names the address of a TCP store and the secret that its clients prove to know:
//
//     bytes 0-7    "tutti id"
//     bytes 8-9    port, lowest byte first
//     bytes 10-41  secret
//     from 42 on   numeric address, ended by 0

#include "lib/c/unique_id.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/environment.h"
#include "lib/base/fork_mark.h"
#include "lib/base/little_endian.h"
#include "lib/c/guarded.h"
#include "lib/security/secret.h"
#include "rendezvous/access_policy.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/interfaces.h"
#include "rendezvous/tcp_server.h"
#include "rendezvous/tcp_store.h"
#include "tutti/error.h"

namespace tutti::c_api {
namespace {

using rendezvous::Endpoint;
using rendezvous::TcpStoreServer;

constexpr char mark[] = "tutti id";
constexpr std::size_t port_at = sizeof mark - 1;
constexpr std::size_t secret_at = port_at + sizeof(std::uint16_t);
constexpr std::size_t secret_bytes = 32;
constexpr std::size_t host_at = secret_at + secret_bytes;

struct MeetingPlace {
  Endpoint endpoint;
  Secret secret;
};

std::span<std::byte> bytes_of(tutti_unique_id& id) { return std::as_writable_bytes(std::span{id.bytes}); }
std::span<const std::byte> bytes_of(const tutti_unique_id& id) { return std::as_bytes(std::span{id.bytes}); }

MeetingPlace decode(const tutti_unique_id& id) {
  const char* const host = id.bytes + host_at;
  if (std::memcmp(id.bytes, mark, port_at) != 0 || !std::memchr(host, 0, sizeof id.bytes - host_at))
    throw Wrong{"this is no id: pass on all bytes of the one that tutti_unique_id_create() has made"};
  const std::byte* at = bytes_of(id).data() + port_at;
  return {{host, get<std::uint16_t>(at)}, Secret{bytes_of(id).subspan(secret_at, secret_bytes)}};
}

/// The servers of this process by their ids. One that nobody has used lives as long as the process; never destroyed,
/// since threads may outlive the end of main().
class Servers {
 public:
  static Servers& all() {
    static Servers& all = *new Servers;
    return all;
  }

  void add(const tutti_unique_id& id, const std::shared_ptr<TcpStoreServer>& server) {
    const std::lock_guard lock{mutex_};
    std::erase_if(servers_, [](const auto& entry) { return entry.second.server.expired(); });
    servers_[text_of(id)] = {server, server};
  }

  /// From then on it lives as long as those that have it. Null: it is in another process, which may be the parent of
  /// this one.
  std::shared_ptr<TcpStoreServer> take(const tutti_unique_id& id) {
    const std::lock_guard lock{mutex_};
    const auto found = servers_.find(text_of(id));
    if (found == servers_.end() || !found->second.process.is_here()) return nullptr;
    auto server = found->second.server.lock();
    if (server)
      found->second.unused.reset();
    else
      servers_.erase(found);
    return server;
  }

 private:
  struct Entry {
    std::shared_ptr<TcpStoreServer> unused;
    std::weak_ptr<TcpStoreServer> server;
    ForkMark process = {};
  };
  static std::string text_of(const tutti_unique_id& id) { return {id.bytes, sizeof id.bytes}; }

  std::mutex mutex_;
  std::map<std::string, Entry> servers_;
};

/// What each rank puts in and gets back.
struct Ticket {
  std::int32_t rank;
  std::int32_t ranks;
  tutti_unique_id id;           // of rank 0
  char why_there_is_none[376];  // of rank 0, in words; empty: it has an id
};

void check_tickets(const std::vector<Ticket>& all, std::int32_t refused) {
  if (refused != 0) throw Wrong{fmt::format("all_gather has failed with {}", refused)};
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Ticket& ticket = all[rank];
    if (std::cmp_not_equal(ticket.rank, rank) || std::cmp_not_equal(ticket.ranks, all.size()))
      throw Wrong{
          fmt::format("all_gather gives the bytes of rank {} of {} in place {}, but there are {} ranks: it must "
                      "put those of each rank in the place of its number",
                      ticket.rank, ticket.ranks, rank, all.size())};
  }
  const std::span words{all.front().why_there_is_none};
  const std::string why{words.data(), ::strnlen(words.data(), words.size())};
  if (!why.empty()) throw Error{ErrorCode::rendezvous, "rank 0 could not open a place to meet: " + why, 0};
}

}  // namespace

tutti_unique_id create_unique_id() {
  tutti_unique_id id{};
  std::memcpy(id.bytes, mark, port_at);
  const auto secret = bytes_of(id).subspan(secret_at, secret_bytes);
  if (!fill_with_random(secret)) throw Error{ErrorCode::system, "the kernel has no random bytes for a secret"};
  const rendezvous::Lookup environment = variable;
  const std::string host = rendezvous::choose_interface("", {environment}).interface.address;
  if (host.size() >= sizeof id.bytes - host_at) throw Error{ErrorCode::system, "the address " + host + " is too long"};
  std::memcpy(id.bytes + host_at, host.c_str(), host.size() + 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{2};
  // An id is older than the options of its ranks, so each of them says whether it encrypts.
  const auto server =
      std::make_shared<TcpStoreServer>(Endpoint{host, 0}, rendezvous::ServerLimits{}, deadline,
                                       rendezvous::AccessPolicy{.secret = Secret{secret}, .clients_choose = true});
  put(bytes_of(id).data() + port_at, server->endpoint().port);
  Servers::all().add(id, server);
  return id;
}

std::shared_ptr<Store> meet_at(const tutti_unique_id& id, const ConnectOptions& options, Store::Milliseconds timeout,
                               const std::shared_ptr<TlsProxies>& tls_proxies) {
  struct Client {
    std::shared_ptr<TcpStoreServer> server;  // in this process, or null
    std::shared_ptr<Store> store;            // destroyed before the server
  };
  const MeetingPlace place = decode(id);
  const auto client = std::make_shared<Client>();
  client->server = Servers::all().take(id);  // from here on it ends with the client
  client->store =
      rendezvous::connect_tcp_store(place.endpoint, timeout, {.secret = place.secret, .tls_proxies = tls_proxies});
  if (client->store->add(fmt::format("tutti id/{}", *options.rank), 1) != 1)
    throw Wrong{fmt::format("rank {} has used this id already: an id serves one communicator", *options.rank)};
  return {client, client->store.get()};
}

tutti_unique_id share_unique_id(int rank, int ranks, tutti_all_gather_function all_gather, void* context) {
  Ticket mine{rank, ranks, {}, {}};
  std::exception_ptr failure;
  if (rank == 0) {
    try {
      mine.id = create_unique_id();
    } catch (const std::exception& error) {  // the others are in all_gather, or will be
      failure = std::current_exception();
      std::string_view{error.what()}.copy(mine.why_there_is_none, sizeof mine.why_there_is_none - 1);
    }
  }
  std::vector<Ticket> all(static_cast<std::size_t>(ranks));
  const std::int32_t refused = all_gather(&mine, all.data(), sizeof mine, context);
  if (failure) std::rethrow_exception(failure);
  try {
    check_tickets(all, refused);
  } catch (...) {
    Servers::all().take(mine.id);  // and drop it: nobody will come
    throw;
  }
  return all.front().id;
}

}  // namespace tutti::c_api
