#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "algorithms/board_program.h"
#include "lib/api/communicator_state.h"
#include "lib/api/settings.h"
#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "lib/base/net/address.h"
#include "lib/base/system_error_text.h"
#include "lib/failure/error_file.h"
#include "lib/group/context.h"
#include "lib/observe/log.h"
#include "lib/security/job_secret.h"
#include "lib/startup/clock_sync.h"
#include "lib/startup/join.h"
#include "rendezvous/interfaces.h"
#include "rendezvous/launchers.h"
#include "transport/memory/board.h"
#include "tutti/communicator.h"
#include "tutti/version.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

/// The address under which other ranks reach this one.
void choose_address(const rendezvous::Launch& launch, const Log& log, detail::JoinOptions& join) {
  const rendezvous::Lookup environment = variable;
  const auto [chosen, warning, families, others, without] =
      rendezvous::choose_interface(launch.rendezvous, {environment, rendezvous::is_on_one_host(launch)});
  if (!warning.empty() && launch.rank == 0) log.warn(warning);
  join.bind_address = chosen.address;
  join.families = families;
  join.connections = static_cast<std::size_t>(environment::number("TUTTI_TCP_CONNECTIONS").value_or(1));
  // All of them, whatever this rank's own number of connections is: a peer may open more.
  for (const rendezvous::Interface& other : others) join.other_addresses.push_back(other.address);
  if (join.connections > 1 && !without.empty() && launch.local_rank <= 0)
    log.warn(
        fmt::format("TUTTI_SOCKET_IFNAME names {}, where this host has no IPv{} address for peers: links between "
                    "hosts use {} of the interfaces that it names",
                    fmt::join(without, " and "), net::parse_address(chosen.address)->family() == AF_INET6 ? 6 : 4,
                    others.size() + 1));
}

/// Ways for data other than messages on the engine's links.
void choose_shortcuts(detail::JoinOptions& join, bool checksum, const Log& log) {
  join.board_limit = environment::number("TUTTI_BOARD_BYTES").value_or(join.board_limit);
  join.inline_messages = environment::is_on("TUTTI_MESSAGES_AT_ONCE");
  if (!checksum) return;
  join.board_limit = 0;
  join.inline_messages = false;
  log.info(Log::Subsystem::init,
           "TUTTI_CHECKSUM=1: there are no boards, allocate() shares nothing, and the engine does all sends and "
           "receives, since only messages carry checksums");
}

/// Opens the records for a debugger and for a trace. Ranks run without them if there is no memory.
void open_records(detail::Context& context, const rendezvous::Launch& launch) {
  std::string no_black_box;
  context.black_box = black_box::Box::open({launch.rank, launch.size, host_name(), launch.prefix}, no_black_box);
  if (!no_black_box.empty()) context.log.info(Log::Subsystem::init, "keeps no black box: " + no_black_box);
  std::string no_trace;
  context.recorder =
      trace::Recorder::open({launch.rank, launch.size, host_name()}, algorithms::BoardReaders{}, no_trace);
  if (!no_trace.empty()) context.log.warn("keeps no trace: " + no_trace);
}

/// Logs version, rank and settings.
void introduce(const Log& log, const rendezvous::Launch& launch) {
  if (launch.rank == 0) log.version("tutti " TUTTI_VERSION);
  log.info(Log::Subsystem::init, fmt::format("tutti {}: rank {} of {}, as told by {}", TUTTI_VERSION, launch.rank,
                                             launch.size, launch.source));
  for (const Variable& known : variables()) {
    const auto value = variable(known.name);
    if (!value) continue;
    log.info(Log::Subsystem::env, fmt::format("{}={}", known.name, known.is_secret ? "(not shown)" : *value));
  }
}

/// What TUTTI_INJECT asks of this rank. The system calls that it refuses are refused from now on.
std::unique_ptr<detail::Injector> faults_of(const rendezvous::Launch& launch) {
  const auto faults = detail::parse_faults(variable("TUTTI_INJECT").value_or(""), launch.size);
  detail::refuse_system_calls(faults, launch.rank);
  return detail::Injector::make(faults, launch.rank);
}

/// Bounds each request to a store; one of the program's own has its timeout back afterwards.
class StoreTimeout {
 public:
  StoreTimeout(std::shared_ptr<Store> store, milliseconds timeout)
      : store_(std::move(store)), before_(store_->timeout()) {
    store_->set_timeout(timeout);
  }
  ~StoreTimeout() {
    try {
      store_->set_timeout(before_);
    } catch (...) {  // of a store of the program's own: anything
      // It keeps the timeout of the set-up.
    }
  }
  StoreTimeout(const StoreTimeout&) = delete;
  StoreTimeout& operator=(const StoreTimeout&) = delete;

 private:
  std::shared_ptr<Store> store_;
  milliseconds before_;
};

/// The settings of this rank, of its options and environment, before it looks for others.
struct Settings {
  rendezvous::Launch launch = {};
  std::shared_ptr<detail::Context> context = std::make_shared<detail::Context>();
  detail::JoinOptions join = {};
  milliseconds setup_timeout{0};
};

void read_settings(const ConnectOptions& options, Settings& read) {
  check_environment(environ);
  settings::check_values();
  read.launch = rendezvous::find_launch(options, variable);
  detail::Context& context = *read.context;
  context.log = Log::from_environment(read.launch.rank, host_name());
  introduce(context.log, read.launch);
  context.timeout = settings::timeout(options.timeout);
  context.deterministic = environment::is_on("TUTTI_DETERMINISTIC") || options.deterministic;
  context.checksum = environment::is_on("TUTTI_CHECKSUM");
  context.default_algorithms = settings::default_algorithms();
  context.tuning = settings::tuning(options.tuning_file);
  context.given = settings::plans(options.plan_file);
  context.kernels = &settings::kernels();
  context.copy_policy = settings::copy_policy(*context.kernels);

  context.injector = faults_of(read.launch);
  open_records(context, read.launch);

  detail::JoinOptions& join = read.join;
  const settings::Transports transports = settings::transports(options.transport);
  join.shm = transports.shm;
  join.tcp = transports.tcp;
  join.lost_after = settings::lost_after(options.lost_after);
  join.rank = read.launch.rank;
  join.size = read.launch.size;
  join.spins = settings::spins();
  join.topology = settings::topology();
  choose_shortcuts(join, context.checksum, context.log);
  join.secret = job_secret(options.secret_file);
  join.foreign_store = read.launch.foreign;
  join.congestion = settings::congestion();
  read.setup_timeout = settings::timeout(options.setup_timeout);
  join.deadline = deadline_after(read.setup_timeout);
}

/// Opens the store in which the ranks meet. It has the timeout of the set-up as long as `during_setup` is there.
void open_place(const ConnectOptions& options, const std::shared_ptr<TlsProxies>& tls_proxies, Settings& own,
                std::optional<StoreTimeout>& during_setup) {
  auto& [launch, context, join, setup_timeout] = own;
  join.tls_proxies = tls_proxies ? tls_proxies : job_tls_proxies(join.secret, options.tls);
  const rendezvous::AccessPolicy access_policy{join.secret, insecure_allowed(), join.tls_proxies};
  auto store =
      options.store ? options.store : rendezvous::open_store(launch, setup_timeout, access_policy, context->log);
  if (!join.inproc) during_setup.emplace(store, setup_timeout);  // threads share theirs; their views have timeouts
  context->log.info(Log::Subsystem::store,
                    fmt::format("meets the others at {}, under \"{}\"",
                                options.store ? "a store of the program's" : launch.rendezvous, launch.prefix));
  join.store = prefix_store(launch.prefix, std::move(store));
  join.store->set_timeout(setup_timeout);
  if (launch.size > 1 && !join.inproc) choose_address(launch, context->log, join);
}

/// Ranks that wait in a store of the program's learn there why this one does not come. Where a launcher names the
/// place, it ends the others, or starts this rank again while they wait.
void tell_others(const ConnectOptions& options, const Error& reason) noexcept {
  constexpr milliseconds limit{5000};
  if (!options.store) return;
  try {
    const rendezvous::Launch launch = rendezvous::find_launch(options, variable);
    const StoreTimeout meanwhile{options.store, limit};
    detail::JoinOptions join{.rank = launch.rank, .size = launch.size, .deadline = deadline_after(limit)};
    join.store = prefix_store(launch.prefix, options.store);
    detail::decline(join, reason);
  } catch (...) {  // of a store of the program's own: anything
    // They wait until their own deadline.
  }
}

}  // namespace

namespace detail {

Communicator join(const ConnectOptions& options, const std::shared_ptr<transport::InprocHub>& threads,
                  const std::shared_ptr<TlsProxies>& tls_proxies) try {
  const auto begin = detail::Clock::now();
  Settings own;
  std::optional<StoreTimeout> during_setup;
  try {
    read_settings(options, own);
    own.join.inproc = threads;
    if (options.store || !own.launch.rendezvous.empty()) open_place(options, tls_proxies, own, during_setup);
  } catch (const Error& error) {
    if (!threads) tell_others(options, error);
    throw;
  }
  const auto& context = own.context;
  detail::join_ranks(*context, own.join);
  context->log.info(
      Log::Subsystem::init,
      fmt::format("joined after {:.3f} s", std::chrono::duration<double>(detail::Clock::now() - begin).count()));
  Communicator world = detail::world(context);
  detail::compare_clocks(*context, world);
  return world;
} catch (const Error& error) {
  write_error_file(error);
  throw;
} catch (const std::system_error& error) {  // threads, and what Asio asks the system for
  const Error refused{ErrorCode::system, "connect: " + refusal(error.code().value())};
  write_error_file(refused);
  throw refused;
}

void do_not_join(const ConnectOptions& options, const Error& reason) {
  tell_others(options, reason);
  write_error_file(reason);
  throw reason;
}

}  // namespace detail

Communicator tutti::connect(const ConnectOptions& options) { return detail::join(options, nullptr); }

}  // namespace tutti
