#include "rendezvous/rendezvous_url.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "lib/base/environment.h"
#include "lib/base/hash.h"
#include "lib/base/suggest.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/process.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

constexpr std::array<std::string_view, 4> schemes{"tcp", "store", "file", "env"};

RendezvousUrl tcp_rendezvous_url(const Endpoint& endpoint, const Environment& environment) {
  // A launcher that serves a store (torchrun's agent, `tutti run`) says so in this variable.
  const bool agent = environment.text("TORCHELASTIC_USE_AGENT_STORE") == "True" &&
                     without_brackets(environment.text("MASTER_ADDR").value_or("")) == endpoint.host &&
                     environment.text("MASTER_PORT") == std::to_string(endpoint.port);
  // `tutti run` says it twice, once in TUTTI_RDZV.
  const bool ours = environment.text("TUTTI_RDZV") == "store://" + to_string(endpoint);
  return {.url = "tcp://" + to_string(endpoint), .served = agent, .foreign = agent && !ours};
}

/// MASTER_ADDR is a bare host, so an IPv6 address needs no brackets there.
RendezvousUrl rendezvous_url_of_master(const Environment& environment) {
  const std::string host = environment.text("MASTER_ADDR").value_or("");
  const std::string port = environment.text("MASTER_PORT").value_or("");
  return tcp_rendezvous_url({without_brackets(host), parse_port(port, "MASTER_PORT")}, environment);
}

RendezvousUrl rendezvous_url_of_environment(std::string_view said_by, const Environment& environment) {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
    if (!environment.has(name))
      throw Error{ErrorCode::invalid_argument, fmt::format("{} is \"env://\", but {} is not set.", said_by, name)};
  return rendezvous_url_of_master(environment);
}

bool is_own_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         ::access(path.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

std::optional<std::string> Environment::text(const std::string& name) const {
  auto value = lookup_(name);
  if (value && value->empty()) value.reset();
  return value;
}

std::optional<int> Environment::number(const std::string& name) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  if (name.starts_with("TUTTI_")) return static_cast<int>(environment::number_in(name, *value));
  int result = 0;
  const auto [rest, error] = std::from_chars(value->data(), value->data() + value->size(), result);
  if (error != std::errc{} || rest != value->data() + value->size() || result < 0)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("{} is \"{}\": not a number, accepted: a number from 0.", name, *value)};
  return result;
}

RendezvousUrl parse_rendezvous_url(const std::string& url, std::string_view said_by, const Environment& environment) {
  const std::size_t end = url.find("://");
  const std::string scheme = url.substr(0, end);
  const std::string rest = end == std::string::npos ? "" : url.substr(end + 3);
  if (end != std::string::npos && scheme == "tcp")
    return tcp_rendezvous_url(parse_endpoint(rest, said_by, url), environment);
  if (end != std::string::npos && scheme == "store")
    return {"tcp://" + to_string(parse_endpoint(rest, said_by, url)), true};
  if (end != std::string::npos && scheme == "file") {
    if (!rest.starts_with('/') || rest.ends_with('/'))
      throw Error{
          ErrorCode::invalid_argument,
          fmt::format("{} is \"{}\": a file is named by its full path, such as file:///shared/job1.", said_by, url)};
    return {url};
  }
  if (url == "env://") return rendezvous_url_of_environment(said_by, environment);
  throw Error{ErrorCode::invalid_argument,
              fmt::format("{} is \"{}\"; expected tcp://host:port, store://host:port, file:///path or env://.{}",
                          said_by, url, end == std::string::npos ? "" : did_you_mean(scheme, schemes))};
}

std::optional<RendezvousUrl> rendezvous_url_from(const Environment& environment) {
  if (const auto url = environment.text("TUTTI_RDZV")) return parse_rendezvous_url(*url, "TUTTI_RDZV", environment);
  if (environment.has("MASTER_ADDR") && environment.has("MASTER_PORT")) return rendezvous_url_of_master(environment);
  return std::nullopt;
}

RendezvousUrl private_file(std::string_view job, const Environment& environment) {
  std::string base = environment.text("XDG_RUNTIME_DIR").value_or("");
  if (base.empty() || !is_own_folder(base)) base = "/tmp";
  return {.url = fmt::format("file://{}/tutti-{}-{:016x}/store", base, ::geteuid(), fnv1a(job)), .own_folder = true};
}

}  // namespace tutti::rendezvous
