// What only the shared-memory transport promises: processes, strangers at its socket, and that nothing is left behind.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "tests/transport/mesh.h"
#include "tests/transport/no_descriptors.h"
#include "transport/shm/memory.h"
#include "transport/shm/probe.h"
#include "transport/shm/shm_transport.h"
#include "transport/shm/unix_socket.h"

extern char** environ;

namespace tutti::transport::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* token = "0123456789abcdef";

const Kind& shm_kind() {
  for (const Kind& kind : all_kinds())
    if (kind.name == std::string_view("shm")) return kind;
  throw std::logic_error("no shm in the table");
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::size_t mapped_rings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("tutti-ring") != line.npos) ++count;
  return count;
}

// ---- Addresses -------------------------------------------------------------------------------------------------

TEST_CASE("an address survives its text, and other texts are none") {
  const ShmAddress address{12, "00a3f", "b7c5-0", 4026531840, 1000};
  const auto parsed = ShmAddress::parse(address.encode());
  REQUIRE(parsed);
  CHECK(parsed->rank == 12);
  CHECK(parsed->socket == "00a3f");
  CHECK(parsed->boot == "b7c5-0");
  CHECK(parsed->network == 4026531840);
  CHECK(parsed->user == 1000);
  for (const char* text : {"", "shm1", "127.0.0.1:80", "shm1:1::b:2:3:4", "shm1:x::b:2:3", "shm1:1:0:b:2:3",
                           "shm1:1:zz:b:2:3", "shm1:1:::2:3", "shm2:1::b:2:3", "shm1:1::b:2:3 "})
    CHECK_FALSE(ShmAddress::parse(text));
}

TEST_CASE("ranks are on the same host if kernel and network namespace are") {
  ShmAddress other = ShmAddress::here();
  CHECK(same_host(host_identity(), other.encode()));
  other.rank = 5, other.socket = "abc";
  CHECK(same_host(host_identity(), other.encode()));
  other.network += 1;
  CHECK_FALSE(same_host(host_identity(), other.encode()));
  CHECK(same_kernel(host_identity(), other.encode()));
  other.network -= 1;
  other.boot += "x";
  CHECK_FALSE((same_host(host_identity(), other.encode()) || same_kernel(host_identity(), other.encode())));
  CHECK_FALSE((same_host("", "") || same_kernel("", "")));
}

// ---- The probe -------------------------------------------------------------------------------------------------

struct Probe {
  Probe(int rank, const char* job) : transport(rank, job, reactor) {}
  Reactor reactor;
  ShmTransport transport;
  std::optional<std::string> outcome = "has not run";
};

/// Runs the probe of those of `tokens.size()` ranks that are not in `absent`, each in a thread.
std::vector<std::optional<std::string>> probe(const std::vector<const char*>& tokens, milliseconds patience,
                                              const std::set<std::size_t>& absent = {}) {
  std::vector<std::unique_ptr<Probe>> ranks;
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ranks.push_back(std::make_unique<Probe>(static_cast<int>(3 * i + 1), tokens[i]));
    addresses.push_back(ranks.back()->transport.address());
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (!absent.contains(i))
      threads.emplace_back([&, i] {
        ranks[i]->outcome = ranks[i]->transport.probe(addresses, static_cast<int>(i), Clock::now() + patience);
      });
  for (auto& thread : threads) thread.join();
  std::vector<std::optional<std::string>> outcomes;
  for (const auto& rank : ranks) outcomes.push_back(rank->outcome);
  return outcomes;
}

TEST_CASE("the probe passes where shared memory works, and leaves nothing behind") {
  const std::size_t before = open_descriptors();
  for (const std::size_t ranks : std::initializer_list<std::size_t>{1, 2, 5})
    for (const auto& outcome : probe(std::vector<const char*>(ranks, token), seconds(30)))
      CHECK(outcome.value_or("") == "");
  CHECK(open_descriptors() == before);
  CHECK(mapped_rings() == 0);
}

TEST_CASE("the probe tells who did not come, in time") {
  const auto start = Clock::now();
  const auto outcomes = probe({token, token, token}, milliseconds(200), {1});
  CHECK(Clock::now() - start < seconds(5));
  CHECK(outcomes[0].value_or("") == "rank 4 did not take what was sent to it");
  CHECK(outcomes[2].value_or("") == "nothing came from rank 4");
}

TEST_CASE("the probe fails between ranks of different jobs") {
  const auto outcomes = probe({token, "another job's 16"}, milliseconds(500));
  for (const auto& outcome : outcomes) CHECK(outcome.value_or("").find("is gone") != std::string::npos);
}

TEST_CASE("a transport that was probed still connects, and may be probed again") {
  Probe one(0, token);
  Probe two(1, token);
  const std::vector<std::string> addresses = {one.transport.address(), two.transport.address()};
  for (int i = 0; i < 2; ++i) {
    std::thread other([&] { two.outcome = two.transport.probe(addresses, 1, Clock::now() + seconds(30)); });
    one.outcome = one.transport.probe(addresses, 0, Clock::now() + seconds(30));
    other.join();
    CHECK_FALSE(one.outcome);
    CHECK_FALSE(two.outcome);
  }
  Recorder sinks[2];
  one.transport.set_peers(addresses);
  two.transport.set_peers(addresses);
  one.transport.set_sink(sinks[0]);
  two.transport.set_sink(sinks[1]);
  CHECK(one.transport.open(1, 1).send({}, {}, 0));
  for (int i = 0; i < 100'000 && sinks[1].messages.empty(); ++i) {
    two.reactor.poll();
    two.transport.progress();
  }
  CHECK(sinks[1].messages.size() == 1);
  CHECK(sinks[1].failures.empty());
}

TEST_CASE("a token of another length is refused") {
  Reactor reactor;
  CHECK_THROWS_AS(ShmTransport(0, "short", reactor), Error);
}

TEST_CASE("a board for which a rank has no descriptor free is not waited for: the rank says so") {
  Mesh mesh(shm_kind(), 2);
  constexpr std::array members{0, 1};
  std::string reason;
  REQUIRE(mesh[0].transport->board(4, members, BoardPart::posts_only) != nullptr);
  NoDescriptors none;
  none.taken.pop_back();  // enough to accept the connection, but not what comes over it
  for (Board* board = nullptr; board == nullptr && reason.empty(); mesh.step()) try {
      board = mesh[1].transport->board(4, members, BoardPart::posts_only);
    } catch (const Error& error) {
      reason = error.what();
    }
  CHECK(reason.find("cannot take the memory that rank 0 shares: Too many open files") != std::string::npos);
}

// ---- Strangers -------------------------------------------------------------------------------------------------

Descriptor connect_stranger(Node& node) {
  Descriptor socket;
  REQUIRE(connect_unix(ShmAddress::parse(node.transport->address())->socket, socket) == Attempt::done);
  return socket;
}

Descriptor memory_of(std::size_t size, int seals) {
  Descriptor made(::memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(made.get(), static_cast<off_t>(size)) == 0);
  REQUIRE(::fcntl(made.get(), F_ADD_SEALS, seals) == 0);
  return made;
}

HelloBytes hello(Hello what, const char* job = token) {
  JobToken bytes;
  std::memcpy(bytes.data(), job, bytes.size());
  return encode(what, bytes);
}

bool is_hung_up(Mesh& mesh, const Descriptor& socket) {
  return mesh.run_until([&] { return !take_bells(socket); });
}

TEST_CASE("a process that does not introduce itself properly is hung up on, and the others do not notice") {
  Mesh mesh(shm_kind(), 2);
  mesh[0].send(1, 1, 100, 1);
  REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.messages.empty(); }));
  const std::size_t before = open_descriptors();
  struct Case {
    const char* what;
    HelloBytes hello;
    Descriptor passed;
  };
  constexpr int size_is_final = F_SEAL_SHRINK | F_SEAL_GROW;
  std::vector<Case> cases;
  cases.push_back({"garbage", {}, make_ring().descriptor});
  cases.push_back({"another job", hello({0, 1, 1}, "another job's 16"), make_ring().descriptor});
  cases.push_back({"for another rank", hello({0, 0, 1}), make_ring().descriptor});
  cases.push_back({"from a negative rank", hello({-1, 1, 1}), make_ring().descriptor});
  cases.push_back({"from a rank we have no address of", hello({2, 1, 1}), make_ring().descriptor});
  cases.push_back({"a late probe", hello({0, 1, probe_channel}), make_ring().descriptor});
  cases.push_back({"no memory", hello({0, 1, 1}), Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))});
  cases.push_back({"too little", hello({0, 1, 1}), memory_of(4096, size_is_final)});
  constexpr std::size_t least = RingMemory::bytes_with(least_areas), most = RingMemory::bytes_with(most_areas);
  cases.push_back({"too much", hello({0, 1, 1}), memory_of(most + 1, size_is_final)});
  cases.push_back({"odd areas", hello({0, 1, 1}), memory_of(RingMemory::bytes_with(2 * least_areas), size_is_final)});
  cases.push_back({"memory that can shrink", hello({0, 1, 1}), memory_of(least, F_SEAL_GROW)});
  for (const Case& stranger : cases) {
    CAPTURE(std::string(stranger.what));
    const Descriptor socket = connect_stranger(mesh[1]);
    REQUIRE(send_with_descriptor(socket, stranger.hello, stranger.passed) == Attempt::done);
    CHECK(is_hung_up(mesh, socket));
  }
  SUBCASE("nor who sends less than a hello, or no descriptor") {
    const auto whole = hello({0, 1, 1});
    for (const std::size_t size : {std::size_t{1}, hello_size - 1, hello_size, 10 * hello_size}) {
      CAPTURE(size);
      std::vector<std::byte> bytes(size);
      std::copy_n(whole.begin(), std::min(size, whole.size()), bytes.begin());
      const Descriptor socket = connect_stranger(mesh[1]);
      REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(size));
      CHECK(is_hung_up(mesh, socket));
    }
  }
  const std::size_t ours = cases.size();
  CHECK(open_descriptors() == before + ours);

  mesh[0].send(1, 1, 200, 2);
  REQUIRE(mesh.run_until([&] { return mesh[1].recorder.messages.size() == 2; }));
  CHECK(mesh[1].recorder.failures.empty());
  CHECK(mapped_rings() == 2);  // both ends of the one link
}

TEST_CASE("another user is hung up on, whatever he knows") {
  if (::geteuid() != 0) return;  // only root can play two users
  Mesh mesh(shm_kind(), 2);
  REQUIRE(::seteuid(65534) == 0);
  const Descriptor socket = connect_stranger(mesh[1]);
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(send_with_descriptor(socket, hello({0, 1, 1}), make_ring().descriptor) == Attempt::done);
  CHECK(is_hung_up(mesh, socket));
  CHECK(mapped_rings() == 0);
}

TEST_CASE("many silent strangers do not keep the ranks from connecting") {
  Mesh mesh(shm_kind(), 2);
  std::vector<Descriptor> strangers;
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connect_stranger(mesh[1]));
    mesh.step();
  }
  mesh[0].send(1, 1, 100, 1);
  REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.messages.empty(); }));
  CHECK(open_descriptors() - before <= 200 + 128 + 2);
}

TEST_CASE("memory that cannot be shared is an error of this rank, not a crash") {
  Mesh mesh(shm_kind(), 2);
  std::vector<Descriptor> hoard;
  const auto take_all = [&] {
    while (Descriptor one{::open("/dev/null", O_RDONLY | O_CLOEXEC)}) hoard.push_back(std::move(one));
  };
  take_all();
  mesh[0].send(1, 1, 100, 1);
  REQUIRE(mesh.run_until([&] { return !mesh[0].recorder.failures.empty(); }));
  CHECK(mesh[0].recorder.failures[0].code == ErrorCode::system);

  hoard.resize(hoard.size() - 2);  // enough to make the ring and connect, but then the other cannot accept
  mesh[0].send(1, 2, 100, 1);
  take_all();
  mesh.settle();
  CHECK(mesh[1].recorder.messages.empty());
  hoard.clear();
  REQUIRE(mesh.run_until([&] { return !mesh[1].recorder.messages.empty(); }));
}

// ---- Processes -------------------------------------------------------------------------------------------------

constexpr const char* echo_test = "(run as a child) an echoing rank";
constexpr int address_pipe = 3;

/// Rank 1 of two as a process of its own, which sends everything back.
class EchoProcess {
 public:
  explicit EchoProcess(const std::string& parent) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const Descriptor read_end(ends[0]);
    const Descriptor write_end(ends[1]);
    ::posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), address_pipe);
    std::vector<std::string> texts = {"transport_test", "-ns", fmt::format("-tc={}", echo_test)};
    std::vector<char*> arguments;
    for (std::string& text : texts) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    ::setenv("ECHO_PARENT", parent.c_str(), 1);
    REQUIRE(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ) == 0);
    ::unsetenv("ECHO_PARENT");
    ::posix_spawn_file_actions_destroy(&actions);
    std::array<char, 256> text;
    const ssize_t got = ::read(read_end.get(), text.data(), text.size());
    REQUIRE(got > 0);
    address = {text.data(), static_cast<std::size_t>(got)};
  }
  ~EchoProcess() { kill(); }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  std::string address;

 private:
  pid_t pid_ = -1;
};

TEST_CASE("(run as a child) an echoing rank" * doctest::skip()) {
  const char* parent = std::getenv("ECHO_PARENT");
  REQUIRE(parent != nullptr);
  Node node;
  node.rank = 1;
  auto transport = std::make_unique<ShmTransport>(1, token, node.reactor);
  transport->set_peers({parent, transport->address()});
  transport->set_sink(node.recorder);
  const std::string address = transport->address();
  REQUIRE(::write(address_pipe, address.data(), address.size()) == static_cast<ssize_t>(address.size()));
  node.transport = std::move(transport);
  Link& back = node.transport->open(0, 1);
  std::size_t answered = 0;
  node.sleep_until([&] {
    for (; answered < node.recorder.messages.size(); ++answered) {
      const auto& message = node.recorder.messages[answered];
      node.send(back, message.bytes.size(), message.frame.operation + 1);
    }
    return !node.recorder.failures.empty();
  });
}

TEST_CASE("a process that is killed is lost to the other, which is left with nothing of it") {
  const std::size_t descriptors = open_descriptors();
  for (const bool in_the_middle : {false, true}) {
    CAPTURE(in_the_middle);
    Node node;
    auto transport = std::make_unique<ShmTransport>(0, token, node.reactor);
    EchoProcess echo(transport->address());
    transport->set_peers({transport->address(), echo.address});
    transport->set_sink(node.recorder);
    node.transport = std::move(transport);

    for (const std::size_t size : std::initializer_list<std::size_t>{0, 1, 1'000'003}) {
      const std::size_t before = node.recorder.messages.size();
      node.send(1, 1, size, size);
      REQUIRE(node.sleep_until([&] { return node.recorder.messages.size() > before; }));
      CHECK(node.recorder.messages.back().bytes == pattern(size, size + 1));
    }
    if (in_the_middle) node.send(1, 1, std::size_t{64} << 20, 7);
    echo.kill();
    REQUIRE(node.sleep_until([&] { return node.recorder.failures.size() == 2; }));  // of both directions
    for (const auto& failure : node.recorder.failures) {
      CHECK(failure.code == ErrorCode::peer_lost);
      CHECK(failure.rank == 1);
    }
    CHECK(node.recorder.messages.size() == 3);
    CHECK(mapped_rings() == 0);
    node.transport.reset();
  }
  CHECK(open_descriptors() == descriptors);
}

}  // namespace
}  // namespace tutti::transport::testing
