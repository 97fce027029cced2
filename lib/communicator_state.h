#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/group.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// What a Communicator points to.
class CommunicatorState {
 public:
  CommunicatorState(std::shared_ptr<Context> context, std::uint64_t id, std::vector<int> members,
                    std::uint64_t parent = 0)
      : group(std::move(context), id, std::move(members), parent) {}

  Group group;
  std::mutex mutex;                                          ///< of what follows
  std::atomic<std::uint32_t> windows_made{0};                ///< by calls that all ranks make in the same order
  std::map<std::vector<int>, std::uint32_t> subgroups_made;  ///< how often this list was asked for
};

/// The communicator of all ranks of a context that has joined its mesh.
Communicator world(std::shared_ptr<Context> context);

/// Throws Error{invalid_argument} or {unsupported} if the call cannot be right, whatever the other ranks do.
void check_request(const Request& request, const Group& group);

}  // namespace tutti::detail
