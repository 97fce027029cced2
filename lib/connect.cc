#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lib/base/environment.h"
#include "lib/base/host.h"
#include "lib/base/job_secret.h"
#include "lib/base/log.h"
#include "lib/base/nearest.h"
#include "lib/base/refusal.h"
#include "lib/communicator_state.h"
#include "lib/context.h"
#include "lib/error_file.h"
#include "lib/mesh.h"
#include "lib/trace_clock.h"
#include "rendezvous/interfaces.h"
#include "rendezvous/launchers.h"
#include "transport/board.h"
#include "tutti/communicator.h"
#include "tutti/version.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds default_timeout{300'000};

[[noreturn]] void refuse(const std::string& why) { throw Error{ErrorCode::invalid_argument, "connect: " + why}; }

milliseconds to_milliseconds(const std::string& text, const char* variable) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds > 0) || seconds > 1e9)
    refuse(fmt::format("{}={} is not a positive number of seconds", variable, text));
  return milliseconds{std::max<long long>(1, std::llround(seconds * 1000))};
}

/// The option if given, else TUTTI_TIMEOUT, else five minutes.
milliseconds choose_timeout(milliseconds option) {
  if (option.count() < 0) refuse(fmt::format("a timeout of {} ms is negative", option.count()));
  if (option.count() > 0) return option;
  const auto text = variable("TUTTI_TIMEOUT");
  return text ? to_milliseconds(*text, "TUTTI_TIMEOUT") : default_timeout;
}

/// The option if given, else TUTTI_LOST_AFTER, else ten seconds.
milliseconds choose_lost_after(milliseconds option) {
  if (option.count() == 0)
    if (const auto text = variable("TUTTI_LOST_AFTER")) option = to_milliseconds(*text, "TUTTI_LOST_AFTER");
  if (option.count() == 0) return milliseconds{10'000};
  if (option < milliseconds{1000})
    refuse(
        fmt::format("{} ms of silence are too few to give up a rank: its process may just not have had a core; "
                    "give a second or more (TUTTI_LOST_AFTER, ConnectOptions::lost_after)",
                    option.count()));
  return option;
}

/// "shm,tcp", "tcp", "^shm": which transports may be used.
void choose_transports(std::string text, detail::JoinOptions& join) {
  if (text.empty()) text = variable("TUTTI_TRANSPORT").value_or("shm,tcp");
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
      refuse(fmt::format("unknown transport \"{}\" in \"{}\".{} Known are shm and tcp", name, text,
                         did_you_mean(name, known)));
    }
  }
  if (!join.shm && !join.tcp) refuse(fmt::format("\"{}\" leaves no transport; allow shm, tcp or both", text));
}

std::shared_ptr<const algorithms::TuningTable> load_tuning(std::string path) {
  if (path.empty()) path = variable("TUTTI_TUNING_FILE").value_or("");
  if (path.empty()) return {&algorithms::TuningTable::builtin(), [](const auto*) {}};
  std::ifstream file{path};
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) refuse(fmt::format("cannot read the tuning table {}", path));
  return std::make_shared<const algorithms::TuningTable>(algorithms::TuningTable::parse(text.str(), path));
}

std::shared_ptr<const algorithms::GivenPlans> load_plans(std::string path) {
  if (path.empty()) path = variable("TUTTI_PLAN_FILE").value_or("");
  if (path.empty()) return nullptr;
  std::ifstream file{path};
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) refuse(fmt::format("cannot read the plans of {}", path));
  return std::make_shared<const algorithms::GivenPlans>(algorithms::read_plans(text.view(), path));
}

bool is_on(const char* name) {
  const std::string text = variable(name).value_or("0");
  if (text != "0" && text != "1") refuse(fmt::format("{}={} is neither 0 nor 1", name, text));
  return text == "1";
}

std::optional<int> choose_spins() {
  const std::string text = variable("TUTTI_SPIN").value_or("auto");
  if (text == "auto") return std::nullopt;
  int spins = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), spins);
  if (error != std::errc{} || end != text.data() + text.size() || spins < 0)
    refuse(fmt::format("TUTTI_SPIN={} is neither \"auto\" nor a number of tries from 0", text));
  return spins;
}

std::size_t choose_flat_limit(std::size_t otherwise) {
  const std::string text = variable("TUTTI_FLAT_BYTES").value_or("");
  if (text.empty()) return otherwise;
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc{} || end != text.data() + text.size())
    refuse(fmt::format("TUTTI_FLAT_BYTES={} is not a number of bytes; 0 is off", text));
  return bytes;
}

transport::SingleCopy choose_single_copy() {
  const std::string text = variable("TUTTI_SINGLE_COPY").value_or("auto");
  if (text == "auto") return transport::SingleCopy::measured;
  if (text == "on") return transport::SingleCopy::always;
  if (text != "off") refuse(fmt::format("TUTTI_SINGLE_COPY={} is neither \"auto\" nor \"off\" nor \"on\"", text));
  return transport::SingleCopy::never;
}

transport::Stores choose_stores(const compute::Table& kernels) {
  const std::string text = variable("TUTTI_STORES").value_or("auto");
  if (text != "auto" && text != "plain" && text != "streaming")
    refuse(fmt::format("TUTTI_STORES={} is neither \"auto\" nor \"plain\" nor \"streaming\"", text));
  const bool there_are = &kernels != &compute::generic_table;
  if (text == "streaming" && !there_are)
    refuse(fmt::format("TUTTI_STORES=streaming: the instruction set \"{}\" has no stores past the caches; leave it out",
                       kernels.isa));
  transport::Stores stores{.single_copy = choose_single_copy()};
  if (text == "plain" || !there_are) return stores;
  stores.streaming = kernels.copy_streaming;
  stores.always = text == "streaming";
  return stores;
}

std::optional<std::string> look_up(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (!value || !*value) return std::nullopt;
  return value;
}

/// Version, place and settings, for whoever reads the log later.
void introduce(const Log& log, const rendezvous::Launch& launch) {
  if (launch.rank == 0) log.version("tutti " TUTTI_VERSION);
  log.info(Log::Subsystem::init, fmt::format("tutti {}: rank {} of {}, as told by {}", TUTTI_VERSION, launch.rank,
                                             launch.size, launch.source));
  for (const Variable& known : variables()) {
    const auto value = variable(known.name);
    if (!value) continue;
    const bool secret = known.name.find("SECRET") != std::string_view::npos;
    log.info(Log::Subsystem::env, fmt::format("{}={}", known.name, secret ? "(not shown)" : *value));
  }
}

}  // namespace

Communicator connect(const ConnectOptions& options) try {
  const auto begin = detail::Clock::now();
  check_environment(environ);
  const rendezvous::Launch launch = rendezvous::find_launch(options, look_up);
  auto context = std::make_shared<detail::Context>();
  context->log = Log::from_environment(launch.rank, host_name());
  introduce(context->log, launch);
  context->timeout = choose_timeout(options.timeout);
  context->deterministic = is_on("TUTTI_DETERMINISTIC") || options.deterministic;
  context->checksum = is_on("TUTTI_CHECKSUM");
  context->default_algorithms = variable("TUTTI_ALGO").value_or("");
  context->tuning = load_tuning(options.tuning_file);
  context->given = load_plans(options.plan_file);
  context->kernels = &compute::choose_table(variable("TUTTI_ISA").value_or(""));
  context->stores = choose_stores(*context->kernels);

  const auto faults = detail::parse_faults(variable("TUTTI_INJECT").value_or(""), launch.size);
  detail::refuse_system_calls(faults, launch.rank);
  context->injector = detail::Injector::make(faults, launch.rank);

  std::string trouble;
  context->black_box = black_box::Box::open({launch.rank, launch.size, host_name(), launch.prefix}, trouble);
  if (!trouble.empty()) context->log.info(Log::Subsystem::init, "keeps no black box: " + trouble);

  std::string no_trace;
  context->recorder = trace::Recorder::open({launch.rank, launch.size, host_name()}, no_trace);
  if (!no_trace.empty()) context->log.warn("keeps no trace: " + no_trace);

  detail::JoinOptions join;
  choose_transports(options.transport, join);
  join.lost_after = choose_lost_after(options.lost_after);
  join.rank = launch.rank;
  join.size = launch.size;
  join.spins = choose_spins();
  join.flat_limit = choose_flat_limit(join.flat_limit);
  join.secret = job_secret(options.secret_file);
  join.foreign_store = launch.foreign;
  join.congestion = variable("TUTTI_CONGESTION").value_or("");
  const milliseconds setup_timeout = choose_timeout(options.setup_timeout);
  join.deadline = detail::deadline_after(setup_timeout);
  if (options.store || !launch.rendezvous.empty()) {
    join.tunnels = job_tunnels(join.secret, options.tls);
    const rendezvous::Admission admission{join.secret, insecure_allowed(), join.tunnels};
    auto store = options.store ? options.store : rendezvous::open_store(launch, setup_timeout, admission, context->log);
    store->set_timeout(setup_timeout);
    context->log.info(Log::Subsystem::store,
                      fmt::format("meets the others at {}, under \"{}\"",
                                  options.store ? "a store of the program's" : launch.rendezvous, launch.prefix));
    join.store = prefix_store(launch.prefix, std::move(store));
    if (launch.size > 1) join.bind_address = rendezvous::choose_interface(launch.rendezvous, look_up).address;
  }
  detail::join_mesh(*context, join);
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

}  // namespace tutti
