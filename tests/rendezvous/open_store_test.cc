// From a launch to a store in which the ranks meet.

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>

#include "rendezvous/attendance.h"
#include "rendezvous/launchers.h"
#include "rendezvous/tcp_protocol.h"
#include "rendezvous/tcp_server.h"
#include "tests/rendezvous/harness.h"

namespace tutti::testing {
namespace {

using rendezvous::Attendance;
using rendezvous::find_launch;
using rendezvous::Launch;
using rendezvous::open_store;

/// As long as this process lives nobody else gets it, but a server may listen there: it can share the port
/// (SO_REUSEADDR) with a socket that does not.
std::uint16_t free_port() {
  const int held = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  REQUIRE(::bind(held, any, size) == 0);
  REQUIRE(::getsockname(held, any, &size) == 0);
  return ::ntohs(address.sin_port);
}

Launch launch_at(const std::string& url, int rank, int size) {
  const bool tcp = url.starts_with("tcp:");
  return {.rank = rank,
          .size = size,
          .rendezvous = url,
          .serve = tcp && rank == 0,
          .awaits_rank_0 = tcp && rank != 0,
          .prefix = "p"};
}

/// What connect() does with a launch.
void meet(const Launch& launch) {
  const auto store = open_store(launch, patience);
  Attendance attendance{store, launch.rank, launch.size, late()};
  const auto values = attendance.exchange_rank_infos(std::to_string(launch.rank));
  for (int i = 0; i < launch.size; ++i) CHECK(values[static_cast<std::size_t>(i)] == std::to_string(i));
}

/// Runs rank(i) in a process each; all must end well.
void run_processes(int count, const std::function<void(int)>& rank) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      int failed = 0;
      try {
        rank(i);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", i, error.what());
        failed = 1;
      }
      ::_exit(failed);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

}  // namespace

TEST_CASE("ranks meet over TCP with rank 0 serving, again and again in one process") {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  run_threads(4, [&](int rank) {
    const auto first = open_store(launch_at(url, rank, 4), patience);
    Attendance attendance{first, rank, 4, late()};
    // The second rendezvous takes place while the first store is still open: it finds neither its port nor its keys.
    meet(launch_at(url, rank, 4));
    meet(launch_at(url, rank, 4));
    attendance.exchange_rank_infos("");
  });
}

TEST_CASE("a rank that comes again before rank 0 has closed its last store waits for its next one") {
  auto last = std::make_unique<rendezvous::TcpStoreServer>(any_port);  // rank 0's
  const std::string url = "tcp://" + to_string(last->endpoint());
  Launch first = launch_at(url, 0, 2);
  first.serve = false;
  open_store(first, patience);
  open_store(launch_at(url, 1, 2), patience);
  const std::string refused = error_of([&] { open_store(launch_at(url, 1, 2), 20ms); }).what();
  CHECK_MESSAGE(contains(refused, "rank 0 did not open its store number 2 at tcp://"), refused);
  CHECK(eventually([&] { return last->figures().connections == 0; }));
  run_threads(2, [&](int rank) {
    if (rank == 0) {
      CHECK(eventually([&] { return last->figures().connections == 1; }));
      last.reset();
    }
    meet(launch_at(url, rank, 2));
  });
}

TEST_CASE("ranks meet over TCP one time after the other, though rank 0 serves anew each time") {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  run_threads(3, [&](int rank) {
    for (int i = 0; i < 20; ++i) meet(launch_at(url, rank, 3));
  });
}

TEST_CASE("a thread that serves where the server of another one is ending does not find the port taken") {
  const rendezvous::Endpoint place{"127.0.0.1", free_port()};
  const Launch launch = launch_at("tcp://" + to_string(place), 0, 2);
  auto last = open_store(launch, patience);
  std::vector<RawClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back(place);
    clients.back().send(greeting() + rendezvous::StoreMessage{rendezvous::StoreOp::key_count}.bytes());
    REQUIRE(clients.back().recv(8).size() == 8);
  }
  run_threads(2, [&](int thread) {
    if (thread == 0) return last.reset();
    CHECK(clients.front().recv(1).empty());  // the server then closes the others, and the port at last
    open_store(launch, patience)->set("k", "v");
  });
}

TEST_CASE("rank 0 does not serve where ranks on other hosts cannot reach it") {
  std::array<char, 256> name{};
  CHECK(::gethostname(name.data(), name.size() - 1) == 0);
  if (rendezvous::hidden_loopback({name.data(), 1}, late()).empty()) {
    MESSAGE("this host's name does not lead to loopback: nothing to see");
    return;
  }
  Launch launch = launch_at(std::string{"tcp://"} + name.data() + ":" + std::to_string(free_port()), 0, 2);
  launch.local_size = 1;
  const Error error = error_of([&] { open_store(launch, patience); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  for (const std::string_view part :
       {std::string_view{name.data()}, std::string_view{"means 127."}, std::string_view{"/etc/hosts"}})
    CHECK(contains(error.what(), part));
  launch.local_size = 2;
  CHECK(open_store(launch, patience)->add("n", 1) == 1);
}

TEST_CASE("ranks meet in a file, again and again, and leave nothing") {
  const TempFolder folder;
  run_threads(3, [&](int rank) {
    const auto first = open_store(launch_at("file://" + folder.file("store"), rank, 3), patience);
    meet(launch_at("file://" + folder.file("store"), rank, 3));
  });
  CHECK(folder.is_empty());
}

TEST_CASE("a single rank needs no place to meet") {
  meet({});
  CHECK(open_store({}, 5s)->timeout() == 5s);
  const std::string said = error_of([] { open_store({}, 1ms)->get("k"); }).what();
  CHECK(said.starts_with("the store of a rank that is alone and has no rendezvous: waited 0.001 s for the key \"k\""));
}

TEST_CASE("a single rank joins the store that it is told of, and hears of a wrong address") {
  const rendezvous::TcpStoreServer other{{"127.0.0.1", 0}};
  const auto nothing = [](const std::string&) { return std::optional<std::string>{}; };
  ConnectOptions options{.rank = 0, .size = 1, .rendezvous = "store://" + to_string(other.endpoint())};
  open_store(find_launch(options, nothing), patience)->set("k", "v");
  CHECK(tcp_store(other.endpoint().host, other.endpoint().port, patience)->get("k") == "v");
  options.rendezvous = "tcp://127.0.0.1:1";
  CHECK(find_launch(options, nothing).rendezvous.empty());
  options.rendezvous = "tpc://garbage";
  CHECK(error_of([&] { find_launch(options, nothing); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("a store of a single rank is the one that it names, so that other programs see its keys") {
  const TempFolder folder;
  const auto nothing = [](const std::string&) { return std::optional<std::string>{}; };
  const auto launch_of = [](const std::string& url, const rendezvous::Lookup& lookup) {
    return find_launch({.rank = 0, .size = 1, .rendezvous = url}, lookup, rendezvous::MeetFor::store);
  };
  const std::uint16_t port = free_port();
  const auto over_tcp = open_store(launch_of("tcp://127.0.0.1:" + std::to_string(port), nothing), patience);
  over_tcp->set("k", "v");
  CHECK(tcp_store("127.0.0.1", port, patience)->get("k") == "v");
  const auto in_a_file = open_store(launch_of("file://" + folder.file("store"), nothing), patience);
  in_a_file->set("k", "v");
  CHECK(file_store(folder.file("store"), 0)->get("k") == "v");
  const rendezvous::TcpStoreServer other{{"127.0.0.1", 0}};
  const auto told = [&](const std::string& name) -> std::optional<std::string> {  // as by `tutti run -n 1`
    if (name == "TUTTI_RDZV") return "store://" + to_string(other.endpoint());
    return name == "TUTTI_RANK" ? std::optional{"0"} : name == "TUTTI_SIZE" ? std::optional{"1"} : std::nullopt;
  };
  open_store(find_launch({}, told, rendezvous::MeetFor::store), patience)->set("k", "v");
  CHECK(tcp_store(other.endpoint().host, other.endpoint().port, patience)->get("k") == "v");
  CHECK(launch_of("", told).rendezvous.empty());  // each rank of a job may have a store for itself
  CHECK(launch_of("", nothing).rendezvous.empty());
  CHECK(launch_of("env://", nothing).rendezvous.empty());
}

TEST_CASE("a port chosen by the system is refused when others must know it") {
  const Error error = error_of([] { open_store(launch_at("tcp://127.0.0.1:0", 0, 2), 1s); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(contains(error.what(), "port 0"));
  CHECK(contains(error.what(), "tutti run"));
}

TEST_CASE("a port that another program holds is an error that names it; store:// joins it instead") {
  const rendezvous::TcpStoreServer other{{"127.0.0.1", 0}};
  const std::string place = to_string(other.endpoint());
  CHECK(contains(error_of([&] { open_store(launch_at("tcp://" + place, 0, 2), 1s); }).what(), "in use"));
  Launch joined = launch_at("tcp://" + place, 0, 1);
  joined.serve = false;
  joined.prefix = "another job";
  open_store(joined, patience)->set("k", "v");
  CHECK(tcp_store(other.endpoint().host, other.endpoint().port, patience)->get("k") == "v");
}

TEST_CASE("a child of fork() may drop its copy of a store that its parent serves, and the parent goes on") {
  const std::uint16_t port = free_port();
  auto store = open_store(launch_at("tcp://127.0.0.1:" + std::to_string(port), 0, 2), patience);
  store->set("key", "value");
  CHECK(store->key_count() == 1);
  run_processes(1, [&](int) {
    ::alarm(30);
    store.reset();
  });
  CHECK(tcp_store("127.0.0.1", port, patience)->get("key") == "value");
  CHECK(store->get("key") == "value");
}

TEST_CASE("a rank whose server never comes hears of it within the timeout") {
  const std::string place = "127.0.0.1:" + std::to_string(free_port());
  const Error error = error_of([&] { open_store(launch_at("tcp://" + place, 1, 2), 50ms); });
  CHECK(error.code() == ErrorCode::rendezvous);
  CHECK(contains(error.what(), place));
}

TEST_CASE("a rank whose rank 0 may not serve other hosts does not wait for it") {
  Launch launch = launch_at("tcp://192.0.2.1:29500", 1, 2);  // of nobody
  launch.rank_0_serves = true;
  const auto begin = Clock::now();
  const Error error = error_of([&] { open_store(launch, patience); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK(contains(error.what(), "TUTTI_SECRET"));
  CHECK(Clock::now() - begin < patience / 2);
}

TEST_CASE("a rank that tries until rank 0 is there meets it, however often it has tried") {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  for (int i = 0; i < 2; ++i)
    CHECK(error_of([&] { open_store(launch_at(url, 1, 2), 5ms); }).code() == ErrorCode::rendezvous);
  run_threads(2, [&](int rank) { meet(launch_at(url, rank, 2)); });
}

TEST_CASE("the next job on a host removes what one left whose processes were all killed, and nothing else") {
  const TempFolder folder;
  const auto launch_of = [&](const std::string& job, int rank) {
    const std::map<std::string, std::string> variables{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                                       {"OMPI_COMM_WORLD_SIZE", "2"},
                                                       {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                       {"PMIX_NAMESPACE", job},
                                                       {"XDG_RUNTIME_DIR", folder.path()}};
    return find_launch({}, [&](const std::string& name) -> std::optional<std::string> {
      const auto it = variables.find(name);
      return it == variables.end() ? std::nullopt : std::optional{it->second};
    });
  };
  run_processes(2, [&](int rank) {
    const auto& store = *new std::shared_ptr{open_store(launch_of("killed", rank), patience)};
    store->set(std::to_string(rank), "");
    store->wait(std::vector<std::string>{"0", "1"});
  });
  CHECK(!folder.is_empty());
  {
    const auto first = open_store(launch_of("in progress", 0), patience);
    run_processes(2, [&](int rank) { meet(launch_of("next", rank)); });
    const auto second = open_store(launch_of("in progress", 1), patience);
    first->set("k", "v");
    CHECK(second->get("k") == "v");
  }
  CHECK(folder.is_empty());
}

TEST_CASE("processes started by mpirun on one host meet with nothing set, one job after the other, and leave nothing") {
  const TempFolder folder;
  for (int job = 0; job < 3; ++job) {
    run_processes(4, [&](int rank) {
      const std::map<std::string, std::string> variables{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                                         {"OMPI_COMM_WORLD_SIZE", "4"},
                                                         {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                                                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                                         {"XDG_RUNTIME_DIR", folder.path()}};
      const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
        const auto it = variables.find(name);
        return it == variables.end() ? std::nullopt : std::optional{it->second};
      };
      const Launch launch = find_launch({}, lookup);
      if (!launch.own_folder || !launch.rendezvous.starts_with("file://" + folder.path()))
        throw std::logic_error(launch.rendezvous);
      meet(launch);
      meet(launch);
    });
    CHECK(folder.is_empty());
  }
}

}  // namespace tutti::testing
