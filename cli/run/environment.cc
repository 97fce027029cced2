// The environment of a rank. Programs written for torchrun find the variables that torchrun would set.

#include "cli/run/environment.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "cli/run/store.h"
#include "lib/api/settings.h"
#include "lib/base/environment.h"
#include "lib/failure/inject.h"
#include "lib/security/job_secret.h"
#include "rendezvous/interfaces.h"
#include "tutti/error.h"

namespace tutti::cli {

namespace {

/// The word quoted for a shell.
std::string as_typed(const std::string& word) {
  constexpr const char* harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return quoted + "'";
}

std::string preview_port(const rendezvous::Endpoint& endpoint) {
  return endpoint.port == 0 ? "<free port>" : std::to_string(endpoint.port);
}

/// Where the ranks would meet, as far as it is known before the store is there.
RendezvousUrl preview_url(const Job& job) {
  const StorePlaces places = store_places(job);
  RendezvousUrl rdzv{.rendezvous = {}, .id = job.id.empty() ? "<made up>" : job.id, .endpoint = places.plain};
  const std::string address = to_string(places.ours);  // an IPv6 host has brackets
  rdzv.rendezvous = "store://" + address.substr(0, address.rfind(':') + 1) + preview_port(places.ours);
  if (places.two_stores && job_secret(job.secret_file).empty())
    rdzv.made_secret = Secret::from_text("<made up at the start>", "TUTTI_SECRET");
  return rdzv;
}

/// Makes `variables` this process's environment while it lives. For the time before there are threads.
class AsEnvironment {
 public:
  explicit AsEnvironment(const std::vector<std::string>& variables) {
    for (const std::string& one : variables) entries_.push_back(const_cast<char*>(one.c_str()));
    entries_.push_back(nullptr);
    ::environ = entries_.data();
  }
  ~AsEnvironment() { ::environ = before_; }
  AsEnvironment(const AsEnvironment&) = delete;
  AsEnvironment& operator=(const AsEnvironment&) = delete;

 private:
  char** before_ = ::environ;
  std::vector<char*> entries_;
};

/// Refuses names of interfaces that this host lacks, as each rank would.
void check_interfaces() {
  const rendezvous::Lookup lookup = variable;
  rendezvous::choose_among(rendezvous::interfaces(), "", {lookup});
}

/// Without those that the user exports.
std::vector<std::pair<std::string, std::string>> given_variables(const Job& job, const RendezvousUrl& rdzv,
                                                                 int local_rank) {
  const std::string rank = std::to_string(job.first_rank() + local_rank);
  const std::string ranks = std::to_string(job.ranks());
  const std::string local = std::to_string(local_rank);
  const std::string locals = std::to_string(job.ranks_here);
  std::vector<std::pair<std::string, std::string>> result{
      {"TUTTI_RANK", rank},
      {"TUTTI_SIZE", ranks},
      {"TUTTI_LOCAL_RANK", local},
      {"TUTTI_LOCAL_SIZE", locals},
      {"TUTTI_RDZV", rdzv.rendezvous},
      {"TUTTI_JOB", rdzv.id},
      {"RANK", rank},
      {"WORLD_SIZE", ranks},
      {"LOCAL_RANK", local},
      {"LOCAL_WORLD_SIZE", locals},
      {"GROUP_RANK", std::to_string(job.node)},
      {"GROUP_WORLD_SIZE", std::to_string(job.nodes)},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", ranks},
      {"MASTER_ADDR", rdzv.endpoint.host},
      {"MASTER_PORT", std::to_string(rdzv.endpoint.port)},
      {"TORCHELASTIC_RUN_ID", rdzv.id},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(rdzv.restart)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(job.max_restarts)},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},  // the runner serves the store, as torchrun's agent does
  };
  if (!job.inject.empty()) result.emplace_back("TUTTI_INJECT", rdzv.restart == 0 ? job.inject : "");
  if (job.tls) result.emplace_back("TUTTI_TLS", "1");
  if (!job.secret_file.empty()) {
    result.emplace_back("TUTTI_SECRET_FILE", std::filesystem::absolute(job.secret_file));
    result.emplace_back("TUTTI_SECRET", "");  // hides the caller's value
  }
  if (!rdzv.made_secret.empty()) result.emplace_back("TUTTI_SECRET", rdzv.made_secret.reveal());
  return result;
}

}  // namespace

bool is_given(const Job& job, std::string_view name) {
  if (name == "ROLE_NAME") return false;  // nothing depends on it, and no option sets it
  const auto given = given_variables(job, {}, 0);
  return std::any_of(given.begin(), given.end(), [name](const auto& variable) { return variable.first == name; });
}

std::vector<std::pair<std::string, std::string>> rank_variables(const Job& job, const RendezvousUrl& rdzv,
                                                                int local_rank) {
  auto result = given_variables(job, rdzv, local_rank);
  result.insert(result.end(), job.exported.begin(), job.exported.end());
  return result;
}

std::vector<std::string> with_variables(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::map<std::string, std::string> all;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t end = text.find('=');
    if (end != std::string::npos) all[text.substr(0, end)] = text.substr(end + 1);
  }
  for (const auto& [name, value] : variables) all[name] = value;
  std::vector<std::string> result;
  for (const auto& [name, value] : all) result.push_back(name + "=" + value);
  return result;
}

void check_variables(const Job& job) {
  const std::vector<std::string> variables = with_variables(rank_variables(job, preview_url(job), 0));
  const AsEnvironment as_in_a_rank{variables};
  check_environment(::environ);
  settings::check_variables();
  detail::parse_faults(variable("TUTTI_INJECT").value_or(""), job.ranks());
  if (job.ranks() > 1 && variable("TUTTI_SOCKET_IFNAME")) check_interfaces();
}

std::string describe_ranks(const Job& job) {
  const RendezvousUrl rdzv = preview_url(job);
  const std::string port = preview_port(rdzv.endpoint);
  std::string text;
  for (int local = 0; local < job.ranks_here; ++local) {
    text += "[" + std::to_string(job.first_rank() + local) + "]";
    for (const auto& [name, value] : rank_variables(job, rdzv, local)) {
      text += " " + name + "=" + as_typed(name == "MASTER_PORT" ? port : value);
    }
    for (const std::string& word : job.command) text += " " + as_typed(word);
    text += "\n";
  }
  return text;
}

}  // namespace tutti::cli
