#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "algorithms/board_program.h"
#include "lib/api/communicator_state.h"
#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "lib/base/net/address.h"
#include "lib/base/suggest.h"
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

constexpr milliseconds default_timeout{300'000};

[[noreturn]] void refuse(const std::string& why) { throw Error{ErrorCode::invalid_argument, "connect: " + why}; }

/// The option if given, else TUTTI_TIMEOUT, else five minutes.
milliseconds choose_timeout(milliseconds option) {
  if (option.count() < 0) refuse(fmt::format("a timeout of {} ms is negative", option.count()));
  if (option.count() > 0) return option;
  return environment::seconds("TUTTI_TIMEOUT").value_or(default_timeout);
}

/// The option if given, else TUTTI_LOST_AFTER, else ten seconds.
milliseconds choose_lost_after(milliseconds option) {
  if (option.count() == 0) return environment::seconds("TUTTI_LOST_AFTER").value_or(milliseconds{10'000});
  if (option < milliseconds{1000})
    refuse(
        fmt::format("{} ms of silence are too few to give up a rank: its process may just not have had a core; "
                    "give a second or more (ConnectOptions::lost_after)",
                    option.count()));
  return option;
}

/// "shm,tcp", "tcp", "^shm": which transports may be used.
void choose_transports(std::string text, detail::JoinOptions& join) {
  const bool given = !text.empty();
  if (!given) text = variable("TUTTI_TRANSPORT").value_or("shm,tcp");
  const auto refuse_text = [&](const std::string& why, std::string_view remedy) {
    if (!given) throw environment::wrong("TUTTI_TRANSPORT", text, why, remedy);
    refuse(fmt::format("transport \"{}\": {}. {}", text, why, remedy));
  };
  static constexpr std::array<std::string_view, 2> known{"shm", "tcp"};
  const bool exclude = text.front() == '^';
  join.shm = join.tcp = exclude;
  std::stringstream names{exclude ? text.substr(1) : text};
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "shm") {
      join.shm = !exclude;
    } else if (name == "tcp") {
      join.tcp = !exclude;
    } else {
      refuse_text(fmt::format("\"{}\" is not a transport", name), did_you_mean(name, known));
    }
  }
  if (!join.shm && !join.tcp) refuse_text("not one transport is left", "Allow shm, tcp or both.");
}

/// The contents of the file that an option or else a variable names; nothing if neither does. `path` is set to its
/// name.
std::optional<std::string> read_file(std::string& path, const char* variable_name, const char* what) {
  const bool given = !path.empty();
  if (!given) path = variable(variable_name).value_or("");
  if (path.empty()) return std::nullopt;
  std::ifstream file{path};
  std::ostringstream text;
  if (file && (text << file.rdbuf())) return text.str();
  if (!given) throw environment::wrong(variable_name, path, "not a file that can be read");
  refuse(fmt::format("cannot read {} {}", what, path));
}

std::shared_ptr<const algorithms::TuningTable> load_tuning(std::string path) {
  const auto text = read_file(path, "TUTTI_TUNING_FILE", "the tuning table");
  if (!text) return {&algorithms::TuningTable::builtin(), [](const auto*) {}};
  return std::make_shared<const algorithms::TuningTable>(algorithms::TuningTable::parse(*text, path));
}

std::shared_ptr<const algorithms::GivenPlans> load_plans(std::string path) {
  const auto text = read_file(path, "TUTTI_PLAN_FILE", "the plans of");
  return text ? std::make_shared<const algorithms::GivenPlans>(algorithms::read_plans(*text, path)) : nullptr;
}

std::optional<Topology> load_topology() {
  std::string path;
  const auto text = read_file(path, "TUTTI_TOPOLOGY", "the topology");
  return text ? std::optional{Topology::parse(*text, path)} : std::nullopt;
}

transport::CopyPolicy choose_copy_policy(const compute::Table& kernels) {
  enum { automatic, plain, streaming };
  constexpr std::array single_copies{transport::SingleCopy::measured, transport::SingleCopy::never,
                                     transport::SingleCopy::always};
  const auto wanted = environment::word("TUTTI_COPY_STORES").value_or(automatic);
  const bool there_are = &kernels != &compute::generic_table;
  if (wanted == streaming && !there_are)
    throw environment::wrong("TUTTI_COPY_STORES", "streaming", "not what this instruction set has",
                             fmt::format("{} has no stores past the caches.", kernels.isa));
  transport::CopyPolicy copy_policy{.plain = kernels.copy,
                                    .single_copy = single_copies[environment::word("TUTTI_SINGLE_COPY").value_or(0)]};
  if (wanted == plain || !there_are) return copy_policy;
  copy_policy.streaming = kernels.copy_streaming;
  copy_policy.always = wanted == streaming;
  return copy_policy;
}

/// The processor's instruction set, restricted by TUTTI_ISA.
const compute::Table& choose_kernels() {
  environment::word("TUTTI_ISA");  // refuses a wrong value
  return compute::choose_table(variable("TUTTI_ISA").value_or(""));
}

/// Tries before a wait yields the core; nothing: by ranks per core.
std::optional<int> choose_spins() {
  const auto tries = environment::number("TUTTI_SPIN");
  return tries ? std::optional{static_cast<int>(*tries)} : std::nullopt;
}

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

}  // namespace

namespace detail {

Communicator join(const ConnectOptions& options, const std::shared_ptr<transport::InprocHub>& threads) try {
  const auto begin = detail::Clock::now();
  check_environment(environ);
  const rendezvous::Launch launch = rendezvous::find_launch(options, variable);
  auto context = std::make_shared<detail::Context>();
  context->log = Log::from_environment(launch.rank, host_name());
  introduce(context->log, launch);
  context->timeout = choose_timeout(options.timeout);
  context->deterministic = environment::is_on("TUTTI_DETERMINISTIC") || options.deterministic;
  context->checksum = environment::is_on("TUTTI_CHECKSUM");
  context->default_algorithms = variable("TUTTI_ALGO").value_or("");
  context->tuning = load_tuning(options.tuning_file);
  context->given = load_plans(options.plan_file);
  context->kernels = &choose_kernels();
  context->copy_policy = choose_copy_policy(*context->kernels);

  const auto faults = detail::parse_faults(variable("TUTTI_INJECT").value_or(""), launch.size);
  detail::refuse_system_calls(faults, launch.rank);
  context->injector = detail::Injector::make(faults, launch.rank);

  open_records(*context, launch);

  detail::JoinOptions join;
  join.inproc = threads;
  choose_transports(options.transport, join);
  join.lost_after = choose_lost_after(options.lost_after);
  join.rank = launch.rank;
  join.size = launch.size;
  join.spins = choose_spins();
  join.topology = load_topology();
  choose_shortcuts(join, context->checksum, context->log);
  join.secret = job_secret(options.secret_file);
  join.foreign_store = launch.foreign;
  join.congestion = variable("TUTTI_CONGESTION").value_or("");
  const milliseconds setup_timeout = choose_timeout(options.setup_timeout);
  join.deadline = detail::deadline_after(setup_timeout);
  if (options.store || !launch.rendezvous.empty()) {
    join.tls_proxies = job_tls_proxies(join.secret, options.tls);
    const rendezvous::AccessPolicy access_policy{join.secret, insecure_allowed(), join.tls_proxies};
    auto store =
        options.store ? options.store : rendezvous::open_store(launch, setup_timeout, access_policy, context->log);
    if (!threads) store->set_timeout(setup_timeout);  // threads share theirs; their views have timeouts
    context->log.info(Log::Subsystem::store,
                      fmt::format("meets the others at {}, under \"{}\"",
                                  options.store ? "a store of the program's" : launch.rendezvous, launch.prefix));
    join.store = prefix_store(launch.prefix, std::move(store));
    join.store->set_timeout(setup_timeout);
    if (launch.size > 1 && !threads) choose_address(launch, context->log, join);
  }
  detail::join_ranks(*context, join);
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

}  // namespace detail

Communicator tutti::connect(const ConnectOptions& options) { return detail::join(options, nullptr); }

}  // namespace tutti
