#include "lib/api/settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "lib/base/environment.h"
#include "lib/base/suggest.h"
#include "lib/base/text_file.h"
#include "lib/collective/planner.h"
#include "lib/observe/log.h"
#include "lib/security/job_secret.h"
#include "transport/stream_socket.h"
#include "tutti/error.h"

namespace tutti::settings {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds default_timeout{300'000};

[[noreturn]] void refuse(const std::string& why) { throw Error{ErrorCode::invalid_argument, "connect: " + why}; }

/// The contents of the file that an option or else a variable names; nothing if neither does. `path` is set to its
/// name.
std::optional<std::string> read_file(std::string& path, const char* variable_name, const char* what) {
  const bool given = !path.empty();
  if (!given) path = variable(variable_name).value_or("");
  if (path.empty()) return std::nullopt;
  TextFile file = read_text_file(path);
  if (file.problem.empty()) return std::move(file.text);
  if (!given) throw environment::wrong(variable_name, path, file.problem);
  refuse(fmt::format("cannot read {} {}: {}", what, path, file.problem));
}

/// What the system lists in this file of /proc/sys/net/ipv4, as the remedy of an error.
std::string listed_in(const char* name, const char* sentence) {
  std::string names;
  std::ifstream file{fmt::format("/proc/sys/net/ipv4/{}", name)};
  return std::getline(file, names) ? fmt::format("{} {}.", sentence, names) : "";
}

}  // namespace

milliseconds timeout(milliseconds option) {
  if (option.count() < 0) refuse(fmt::format("a timeout of {} ms is negative", option.count()));
  if (option.count() > 0) return option;
  return environment::seconds("TUTTI_TIMEOUT").value_or(default_timeout);
}

milliseconds lost_after(milliseconds option) {
  if (option.count() == 0) return environment::seconds("TUTTI_LOST_AFTER").value_or(milliseconds{10'000});
  if (option < milliseconds{1000})
    refuse(
        fmt::format("{} ms of silence are too few to give up a rank: its process may just not have had a core; "
                    "give a second or more (lost_after)",
                    option.count()));
  constexpr std::chrono::hours longest{24 * 3650};  // its multiples in nanoseconds do not overflow
  return std::min<milliseconds>(option, longest);
}

Transports transports(const std::string& option, std::string_view called) {
  constexpr std::string_view name_of_variable = "TUTTI_TRANSPORT";
  const std::string text = option.empty() ? variable(name_of_variable).value_or("shm,tcp") : option;
  const auto refuse_text = [&](const std::string& why, std::string_view remedy) {
    throw environment::wrong_as(option.empty() ? name_of_variable : called, name_of_variable, text, why, remedy);
  };
  static constexpr std::array<std::string_view, 2> known{"shm", "tcp"};
  const bool exclude = text.front() == '^';
  Transports chosen{exclude, exclude};
  std::stringstream names{exclude ? text.substr(1) : text};
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "shm") {
      chosen.shm = !exclude;
    } else if (name == "tcp") {
      chosen.tcp = !exclude;
    } else {
      refuse_text(fmt::format("\"{}\" is not a transport", name), did_you_mean(name, known));
    }
  }
  if (!chosen.shm && !chosen.tcp) refuse_text("not one transport is left", "Allow shm, tcp or both.");
  return chosen;
}

std::string default_algorithms() {
  std::string text = variable("TUTTI_ALGO").value_or("");
  if (text.empty()) return text;
  try {
    detail::Planner::Settings settings;
    settings.default_algorithms = text;
    const detail::Planner planner{std::move(settings)};
  } catch (const Error& error) {  // in the words of the collectives
    throw Error{ErrorCode::invalid_argument, fmt::format("TUTTI_ALGO={}: {}", text, error.what())};
  }
  return text;
}

std::shared_ptr<const algorithms::TuningTable> tuning(std::string path) {
  const auto text = read_file(path, "TUTTI_TUNING_FILE", "the tuning table");
  if (!text) return {&algorithms::TuningTable::builtin(), [](const auto*) {}};
  return std::make_shared<const algorithms::TuningTable>(algorithms::TuningTable::parse(*text, path));
}

std::shared_ptr<const algorithms::GivenPlans> plans(std::string path) {
  const auto text = read_file(path, "TUTTI_PLAN_FILE", "the plans of");
  return text ? std::make_shared<const algorithms::GivenPlans>(algorithms::read_plans(*text, path)) : nullptr;
}

std::optional<Topology> topology() {
  std::string path;
  const auto text = read_file(path, "TUTTI_TOPOLOGY", "the topology");
  return text ? std::optional{Topology::parse(*text, path)} : std::nullopt;
}

const compute::Table& kernels() {
  environment::word("TUTTI_ISA");  // refuses a wrong value
  return compute::choose_table(variable("TUTTI_ISA").value_or(""));
}

transport::CopyPolicy copy_policy(const compute::Table& kernels) {
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

std::optional<int> spins() {
  const auto tries = environment::number("TUTTI_SPIN");
  return tries ? std::optional{static_cast<int>(*tries)} : std::nullopt;
}

std::string congestion() {
  constexpr const char* name_of_variable = "TUTTI_CONGESTION";
  std::string name = variable(name_of_variable).value_or("");
  const int error = name.empty() ? 0 : transport::refused_congestion(name);
  if (error == ENOENT)
    throw environment::wrong(name_of_variable, name, "not what this kernel has",
                             listed_in("tcp_available_congestion_control", "It has:"));
  if (error == EPERM)
    throw environment::wrong(name_of_variable, name, "not what the system lets this user choose",
                             listed_in("tcp_allowed_congestion_control", "Allowed are:"));
  return name;
}

void check_values() {
  using Kind = Variable::Kind;
  for (const Variable& known : variables()) {
    if (known.kind == Kind::flag) environment::is_on(known.name);
    if (known.kind == Kind::number) environment::number(known.name);
    if (known.kind == Kind::seconds) environment::seconds(known.name);
    if (known.kind == Kind::word) environment::word(known.name);
    if (known.kind == Kind::descriptor) environment::descriptor(known.name);
  }
}

void check_variables() {
  check_values();
  Log::check_variables();
  default_algorithms();
  tuning({});
  plans({});
  copy_policy(kernels());
  transports({});
  topology();
  congestion();
  job_secret();
}

}  // namespace tutti::settings
