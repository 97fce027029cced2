#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

/// Expands Slurm's short form of host names: "n[0-1,07-09],m3" is n0 n1 n07 n08 n09 m3. Throws Error{invalid_argument}
/// for anything else, and for more than 65536 names.
std::vector<std::string> expand_hostlist(std::string_view list);

/// Tasks on node `node` of "2(x3),1", which stands for 2,2,2,1. Empty when the text is something else or too short.
std::optional<int> tasks_on_node(std::string_view tasks_per_node, int node);

}  // namespace tutti::rendezvous
