#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/launchers.h"

namespace tutti::rendezvous {

/// The environment of a process, an empty value counting as none.
class Environment {
 public:
  explicit Environment(const Lookup& lookup) : lookup_(lookup) {}
  std::optional<std::string> text(const std::string& name) const;
  bool has(const std::string& name) const { return text(name).has_value(); }
  /// Throws Error{invalid_argument} when it is no number from 0.
  std::optional<int> number(const std::string& name) const;

 private:
  const Lookup& lookup_;
};

/// Where ranks meet, as options or variables say it.
struct RendezvousUrl {
  std::string url = {};     ///< "tcp://host:port" or "file:///path"
  bool served = false;      ///< somebody else serves there already
  bool foreign = false;     ///< see Launch
  bool own_folder = false;  ///< see Launch
};

/// Reads "tcp://host:port", "store://host:port", "file:///path" or "env://". Throws Error{invalid_argument}.
RendezvousUrl parse_rendezvous_url(const std::string& url, std::string_view said_by, const Environment& environment);

/// TUTTI_RDZV, else MASTER_ADDR and MASTER_PORT; empty when neither is there, or only one of the latter.
std::optional<RendezvousUrl> rendezvous_url_from(const Environment& environment);

/// A file only for the ranks of the job on this host that have `job` in common (text that no other job here has), in a
/// folder that only this user can enter.
RendezvousUrl private_file(std::string_view job, const Environment& environment);

}  // namespace tutti::rendezvous
