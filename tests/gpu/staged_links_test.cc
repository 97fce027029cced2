// Ranks that share no memory: messages between their streams by way of pinned memory and TCP, and what such ranks
// cannot do.

#include "lib/api/staged_links.h"

#include <doctest/doctest.h>
#include <tutti/gpu.h>
#include <tutti/gpu_memory.h>
#include <tutti/tutti.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/group/context.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/windows.h"
#include "tests/support/sample.h"
#include "tests/support/scratch.h"
#include "transport/tcp/tcp_transport.h"

namespace {

using namespace std::chrono_literals;
namespace cuda = tutti::cuda;
namespace detail = tutti::detail;
namespace gpu = tutti::gpu;
namespace transport = tutti::transport;
using detail::StagedLinks;
using transport::StreamLinks;
using tutti::at;
using tutti::Communicator;
using tutti::ErrorCode;
using tutti::testing::data_of;
using tutti::testing::has_gpu;
using tutti::testing::is_thread;
using tutti::testing::on_ranks;
using tutti::testing::OnDevice;
using tutti::testing::same_bits;
using tutti::testing::Setting;
using tutti::testing::share_no_memory;
using Clock = std::chrono::steady_clock;

// ---- Two hosts with a rank each, in this thread, with links over TCP and no failure detector ------------------

class Host {
 public:
  explicit Host(int rank, std::size_t slot_bytes) : rank_(rank), context_(std::make_shared<detail::Context>()) {
    context_->rank = rank;
    context_->size = 2;
    context_->tuning = {&tutti::algorithms::TuningTable::builtin(), [](const auto*) {}};
    context_->engine = std::make_shared<detail::Engine>(detail::Patience{1, 1});
    context_->failure_router = std::make_unique<detail::FailureRouter>(rank, std::vector<std::string>{"one", "other"},
                                                                       context_->engine, context_->log);
    transport::TcpOptions options;
    options.key = tutti::Secret::from_text("two hosts of one test", "the test");
    auto tcp = std::make_unique<transport::TcpTransport>(rank, options, context_->engine->reactor());
    tcp_ = tcp.get();
    context_->peers.resize(2);
    context_->peers[at(other())] = {.host = "elsewhere", .process = "pid 0", .transport = tcp_};
    context_->engine->add(std::move(tcp));

    const StreamLinks::Form form{.ranks = 2, .slot_bytes = slot_bytes, .slots = 1, .sharing = {rank}};
    static constexpr std::align_val_t page{4096};
    const std::shared_ptr<std::byte> words{new (page) std::byte[form.words_bytes()](),
                                           [](std::byte* old) { ::operator delete[](old, page); }};
    links_.emplace(rank, form, words, std::vector<StreamLinks::Slots>(2));
  }
  ~Host() { leave(); }
  Host(const Host&) = delete;

  void begin(const Host& peer) {
    std::vector<std::string> addresses(2);
    addresses[at(other())] = peer.tcp_->address();
    tcp_->set_peers(std::move(addresses));
    state_.emplace(context_, 2, std::vector{0, 1});
    staged_ = StagedLinks::open(state_->group, state_->collectives, *links_, 4);
  }
  /// Ends all but the links.
  void leave() {
    if (!staged_) return;
    staged_->close(true);
    staged_.reset();
    state_.reset();
    context_.reset();
  }

  int other() const { return 1 - rank_; }
  StreamLinks& links() { return *links_; }
  StagedLinks& staged() { return *staged_; }
  detail::Group& group() { return state_->group; }
  std::weak_ptr<detail::Engine> engine() const { return context_->engine; }

  void exclusively(const std::function<void()>& task) { context_->engine->exclusively(task); }
  void pass() {
    exclusively([&] { context_->engine->pass(); });
  }
  /// A call of one message to or from the other rank.
  std::shared_ptr<StagedLinks::Call> call(bool is_sent, std::size_t bytes) {
    auto made = std::make_shared<StagedLinks::Call>(std::vector<StagedLinks::Message>{{other(), is_sent, 1, bytes}});
    staged_->get_memory(made->messages);
    exclusively([&] { staged_->begin(made, {.operation = 1, .count = bytes}); });
    return made;
  }
  std::span<std::byte> outgoing(std::size_t bytes) { return slot(links_->outgoing(other(), 0), bytes); }
  std::span<std::byte> incoming(std::size_t bytes) { return slot(links_->incoming(other(), 0), bytes); }

 private:
  static std::span<std::byte> slot(cuda::Address address, std::size_t bytes) {
    return {reinterpret_cast<std::byte*>(address), bytes};
  }

  const int rank_;
  std::shared_ptr<detail::Context> context_;
  transport::TcpTransport* tcp_ = nullptr;
  std::optional<StreamLinks> links_;
  std::optional<detail::CommunicatorState> state_;
  std::shared_ptr<StagedLinks> staged_;
};

struct TwoHosts {
  explicit TwoHosts(std::size_t slot_bytes) : sender(0, slot_bytes), receiver(1, slot_bytes) {
    sender.begin(receiver);
    receiver.begin(sender);
  }
  /// False: it has not come in time.
  template <class Condition>
  bool drive_until(const Condition& condition, std::chrono::milliseconds limit = 20s) {
    for (const auto end = Clock::now() + limit; !condition(); std::this_thread::yield()) {
      if (Clock::now() >= end) return false;
      sender.pass();
      receiver.pass();
    }
    return true;
  }
  bool has_arrived() { return receiver.links().value(StreamLinks::Word::arrived, 0) == 1; }

  const cuda::Current current{tutti::testing::context()};
  Host sender, receiver;
};

/// What the sender's stream does when it has filled the slot.
void signal(Host& sender) {
  const cuda::OwnStream stream{tutti::testing::context()};
  cuda::Commands commands{tutti::testing::context(), stream.get()};
  sender.links().signal(commands, StreamLinks::Word::arrived, sender.other(), 1);
  commands.flush();
  cuda::driver().cuStreamSynchronize(stream.get());
}

TEST_CASE("staged links: of a message whose sender fails no other bytes arrive") {
  if (!has_gpu() || !is_thread()) return;
  constexpr std::size_t bytes = std::size_t{48} << 20;  // more than sockets hold
  TwoHosts hosts{bytes};
  Host &sender = hosts.sender, &receiver = hosts.receiver;
  const auto sent = sender.call(true, bytes), received = receiver.call(false, bytes);
  const std::span<std::byte> from = sender.outgoing(bytes), to = receiver.incoming(bytes);
  std::memset(from.data(), 1, bytes);
  std::memset(to.data(), 0, bytes);
  signal(sender);
  REQUIRE(hosts.drive_until([&] { return to.front() == std::byte{1}; }));
  REQUIRE(!hosts.has_arrived());
  REQUIRE(sender.staged().has_unsent(1));

  // As StreamCalls does. The stream then goes on, and what it writes to the slot is not what it would have been.
  sender.group().abort("a test");
  sender.exclusively([&] { sender.staged().fail(*sent); });
  std::memset(from.data(), 2, bytes);
  CHECK(hosts.drive_until([&] { return receiver.group().failing() || hosts.has_arrived(); }));
  CHECK(!hosts.has_arrived());
  REQUIRE(receiver.group().failing());
  CHECK(receiver.group().failure()->code() == ErrorCode::aborted);
  CHECK(receiver.group().failure()->rank() == 0);
  CHECK(std::string{receiver.group().failure()->what()}.find("a test") != std::string::npos);
}

TEST_CASE("staged links: what a stream sends whose waits have ended does not leave the host") {
  if (!has_gpu() || !is_thread()) return;
  TwoHosts hosts{1024};
  const auto sent = hosts.sender.call(true, 1000), received = hosts.receiver.call(false, 1000);
  hosts.sender.links().end_waits();
  signal(hosts.sender);
  CHECK(!hosts.drive_until([&] { return hosts.has_arrived() || hosts.sender.staged().has_unsent(1); }, 200ms));
}

TEST_CASE("staged links: nothing is left of a call that is over, nor of links that are closed") {
  if (!has_gpu() || !is_thread()) return;
  constexpr std::size_t bytes = 1000;
  TwoHosts hosts{1024};
  auto sent = hosts.sender.call(true, bytes);
  const auto received = hosts.receiver.call(false, bytes);
  const std::weak_ptr<StagedLinks::Call> left = sent;
  bool is_called = false;
  // As the operation of the call does, what is to follow keeps the call.
  hosts.sender.exclusively([&] { hosts.sender.staged().when_sent(*sent, [&is_called, sent] { is_called = true; }); });
  sent.reset();
  CHECK(!left.expired());
  signal(hosts.sender);
  CHECK(hosts.drive_until([&] { return hosts.has_arrived() && is_called; }));
  CHECK(left.expired());

  const std::weak_ptr<detail::Engine> engine = hosts.sender.engine();
  hosts.sender.leave();
  CHECK(engine.expired());
}

TEST_CASE("staged links: where there is no memory for slots, there is none at the next try either") {
  if (!has_gpu() || !is_thread()) return;
  TwoHosts hosts{std::size_t{1} << 50};
  const std::vector<StagedLinks::Message> messages{{1, true, 1, 1}};
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(hosts.sender.staged().get_memory(messages), tutti::Error);
}

// ---- Ranks that are processes ------------------------------------------------------------------------------------

/// Calls on their way in two streams; each result has the bits of the same call on host memory.
void compare(Communicator& comm, std::size_t count, const char* algorithm) {
  const std::size_t n = at(comm.size());
  const std::array<cuda::OwnStream, 2> streams{cuda::OwnStream{tutti::testing::context()},
                                               cuda::OwnStream{tutti::testing::context()}};
  const std::vector<float> in = data_of(comm.rank(), count), all = data_of(comm.rank(), n * count);
  std::vector<float> sum(count), gathered(n * count), exchanged(n * count), broadcast = in;
  comm.all_reduce(in, sum, tutti::sum, {.algorithm = algorithm});
  comm.all_gather(in, gathered);
  comm.all_to_all(all, exchanged);
  comm.broadcast(broadcast, 1);
  const OnDevice<float> device_in{in}, device_all{all}, device_broadcast{in};
  const OnDevice<float> device_sum{std::vector<float>(count)}, device_gathered{std::vector<float>(n * count)};
  const OnDevice<float> device_exchanged{std::vector<float>(n * count)};
  std::vector<tutti::Work> works;
  works.push_back(comm.async().all_reduce(device_in.span(), device_sum.span(), tutti::sum,
                                          {.algorithm = algorithm, .stream = streams[0].get()}));
  works.push_back(comm.async().all_gather(device_in.span(), device_gathered.span(), {.stream = streams[1].get()}));
  comm.all_to_all(device_all.span(), device_exchanged.span(), {.stream = streams[0].get()});
  works.push_back(comm.async().broadcast(device_broadcast.span(), 1, {.stream = streams[1].get()}));
  tutti::wait_all(works);
  INFO(count << " elements, rank " << comm.rank());
  CHECK(same_bits(device_sum.read(), sum));
  CHECK(same_bits(device_gathered.read(), gathered));
  CHECK(same_bits(device_exchanged.read(), exchanged));
  CHECK(same_bits(device_broadcast.read(), broadcast));
}

TEST_CASE("share no memory: calls have the bits of those on host memory, in long and short messages") {
  if (!has_gpu() || !share_no_memory()) return;
  const Setting mode{"TUTTI_GPU_MODE", "streams"};
  struct Size {
    const char* slot_bytes;
    std::vector<std::size_t> counts;
  };
  // Many rounds of short messages; messages of up to 1 MiB, which sockets take in pieces, less and more than a slot.
  std::vector<Size> sizes{{"4096", {1, 20'011}}, {"1048576", {300, 200'003, 600'007}}};
  if (tutti::testing::sanitized) sizes = {{"4096", {5003}}, {"262144", {100'003}}};  // seconds otherwise
  for (const Size& size : sizes) {
    const Setting slots{"TUTTI_GPU_SLOT_BYTES", size.slot_bytes};
    on_ranks(3, [&](Communicator& comm) {
      for (const std::size_t count : size.counts)
        for (const char* algorithm : {"ring", "tree"}) compare(comm, count, algorithm);
    });
  }
}

TEST_CASE("share no memory: memory for all ranks is ordinary memory, and ways that need it are refused") {
  if (!has_gpu() || !share_no_memory()) return;
  on_ranks(2, [](Communicator& comm) {
    const auto data = gpu::allocate<float>(comm, 100);
    CHECK(!data.is_shared());
    gpu::Registration registered = gpu::register_memory(comm, data.span());
    CHECK(!registered.is_shared());
    gpu::deregister_memory(comm, std::move(registered));
  });
  const Setting mode{"TUTTI_GPU_MODE", "leader"};
  on_ranks(2, [](Communicator& comm) {
    const OnDevice<float> data{{1, 2, 3}};
    const std::function<void()> calls[] = {[&] { comm.all_reduce(data.span(), tutti::sum); },
                                           [&] { (void)gpu::allocate<float>(comm, 100); },
                                           [&] { (void)gpu::register_memory(comm, data.span()); }};
    for (const auto& call : calls) {
      std::string text;
      ErrorCode code{};
      try {
        call();
      } catch (const tutti::Error& error) {
        text = error.what();
        code = error.code();
      }
      CHECK(code == ErrorCode::unsupported);
      CHECK(text == "rank " + std::to_string(comm.rank()) +
                        ": TUTTI_GPU_MODE=leader is not possible here: its ranks do not all share memory; set "
                        "TUTTI_GPU_MODE=auto, which finds out what is");
    }
    comm.barrier();
  });
}

}  // namespace
