#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/launchers.h"

namespace tutti::rendezvous {

/// The environment of a process. Empty values count as unset.
class Environment {
 public:
  explicit Environment(const Lookup& lookup) : lookup_(lookup) {}
  std::optional<std::string> text(const std::string& name) const;
  bool has(const std::string& name) const { return text(name).has_value(); }
  /// Throws Error{invalid_argument} if it is not a number from 0.
  std::optional<int> number(const std::string& name) const;

 private:
  const Lookup& lookup_;
};

/// The place where ranks meet, from options or variables.
struct RendezvousUrl {
  std::string url = {};     ///< "tcp://host:port" or "file:///path"
  bool served = false;      ///< another process serves there already
  bool foreign = false;     ///< see Launch
  bool own_folder = false;  ///< see Launch
};

/// Parses "tcp://host:port", "store://host:port", "file:///path" or "env://". Throws Error{invalid_argument}.
RendezvousUrl parse_rendezvous_url(const std::string& url, std::string_view said_by, const Environment& environment);

/// TUTTI_RDZV, else MASTER_ADDR and MASTER_PORT; empty if neither is set, or only one of the latter.
std::optional<RendezvousUrl> rendezvous_url_from(const Environment& environment);

/// A file for the ranks of the job on this host, in a folder that only this user can enter. `job` is a text that they
/// have in common and no other job here has.
RendezvousUrl private_file(std::string_view job, const Environment& environment);

}  // namespace tutti::rendezvous
