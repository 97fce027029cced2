// `tutti doctor`: what works on this machine, what does not, and the remedies.

#include "cli/doctor/doctor.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "cli/base/exit_codes.h"
#include "cli/base/output.h"
#include "cli/base/usage_error.h"
#include "lib/base/environment.h"
#include "lib/base/most_ranks.h"
#include "lib/base/suggest.h"
#include "lib/failure/inject.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::cli {
namespace {

constexpr const char* usage = R"(Checks what works on this machine, what does not, and what to do about it.
Usage: tutti doctor [OPTIONS]

  -n N     judge the machine for N ranks on it
  --env    list every TUTTI_ variable: value, where it comes from, default, meaning
  --json   the same as JSON
  --help   this help

Exit code 0, or 1 when something that every job needs does not work.
)";

struct DoctorOptions {
  bool environment = false;
  bool json = false;
  bool help = false;
  int ranks = 0;
};

DoctorOptions parse(int argc, char** argv) {
  DoctorOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--env") {
      options.environment = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word == "-n") {
      const std::string_view number = i + 1 < argc ? argv[++i] : "";
      const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), options.ranks);
      if (error != std::errc{} || stop != number.data() + number.size() || options.ranks < 1) {
        wrong("doctor", fmt::format("-n takes a number of ranks, not \"{}\"", number));
      }
    } else {
      constexpr std::string_view known[] = {"--env", "--json", "--help", "-n"};
      wrong("doctor", fmt::format("no option \"{}\".{}", word, did_you_mean(word, known)));
    }
  }
  return options;
}

/// The value in effect, but never a secret.
std::string shown(const Variable& one, const std::optional<std::string>& value) {
  return value && one.is_secret ? "(set; not shown)" : value.value_or(std::string{one.fallback});
}

void print_environment() {
  for (const Variable& one : variables()) {
    const std::optional<std::string> value = variable(one.name);
    const std::string source = value ? fmt::format("from the environment; default: {}", one.fallback) : "the default";
    fmt::print("{} = {} ({})\n    {}\n    takes: {}\n", one.name, shown(one, value), source, one.meaning,
               accepted_by(one));
  }
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\u{:04x}", c);
    else
      result += c;
  }
  return result + '"';
}

/// {"a": "b", ...}
std::string object(const std::vector<std::pair<std::string_view, std::string>>& members) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : members) parts.push_back(json_string(name) + ": " + json_string(value));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

void print_environment_json() {
  std::vector<std::string> list;
  for (const Variable& one : variables()) {
    const std::optional<std::string> value = variable(one.name);
    list.push_back(object({{"name", std::string{one.name}},
                           {"value", shown(one, value)},
                           {"source", value ? "environment" : "default"},
                           {"default", std::string{one.fallback}},
                           {"takes", accepted_by(one)},
                           {"meaning", std::string{one.meaning}}}));
  }
  fmt::print("[\n  {}\n]\n", fmt::join(list, ",\n  "));
}

const char* word_for(Level level) {
  switch (level) {
    case Level::ok:
      return "ok";
    case Level::warn:
      return "warn";
    default:
      return "FAIL";
  }
}

std::vector<Finding> look(int ranks) {
  std::vector<Finding> all;
  const auto add = [&all](std::vector<Finding> some) { std::move(some.begin(), some.end(), std::back_inserter(all)); };
  add(check_machine(ranks));
  add(check_network());
  add(check_sharing());
  add(check_waiting());
  add(check_cuda());
  return all;
}

void print(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{:4}  {}: {}\n", word_for(finding.level), finding.what, finding.found);
    if (finding.level != Level::ok) fmt::print("      -> {}\n", finding.remedy);
  }
}

void print_json(const std::vector<Finding>& findings, bool good) {
  std::vector<std::string> checks;
  for (const Finding& finding : findings) {
    checks.push_back(object({{"level", word_for(finding.level)},
                             {"what", finding.what},
                             {"found", finding.found},
                             {"remedy", finding.level == Level::ok ? "" : finding.remedy}}));
  }
  fmt::print("{{\n\"version\": {},\n\"good\": {},\n\"checks\": [\n  {}\n]\n}}\n", json_string(TUTTI_VERSION), good,
             fmt::join(checks, ",\n  "));
}

/// TUTTI_INJECT can simulate a machine that refuses system calls.
void refuse_system_calls() {
  try {
    detail::refuse_system_calls(detail::parse_faults(variable("TUTTI_INJECT").value_or(""), most_ranks_of_job), 0);
  } catch (const Error&) {
    // A value that makes no sense is one of the findings.
  }
}

}  // namespace

int doctor_main(int argc, char** argv) {
  const DoctorOptions options = parse(argc, argv);
  if (options.help) {
    print_text(usage);
    return exit_success;
  }
  if (options.environment) {
    if (options.json)
      print_environment_json();
    else
      print_environment();
    return exit_success;
  }
  refuse_system_calls();
  const std::vector<Finding> findings = look(options.ranks);
  const bool good = std::none_of(findings.begin(), findings.end(),
                                 [](const Finding& finding) { return finding.level == Level::fail; });
  if (options.json)
    print_json(findings, good);
  else
    print(findings);
  return good ? exit_success : exit_internal;
}

}  // namespace tutti::cli
