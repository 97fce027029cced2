#pragma once

#include <algorithm>
#include <chrono>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/base/internals.h"
#include "lib/engine/engine.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "transport/transport.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// How far a rank is with what other ranks of its host hand to it.
enum class Fetched : int { have, wait, refused };

/// What ranks of a host hand to each other under some names. Unless all of them have it in the end, so also where an
/// exception ends the wait, this rank drops what has come, what may still come, and what it was still to hand over. It
/// keeps that if it has no memory left to say so.
class Handover {
 public:
  /// `transport`: null if nothing is handed over.
  Handover(const Group& group, transport::Transport* transport, std::vector<transport::Channel> names)
      : engine_(*group.context().engine), transport_(transport), names_(std::move(names)) {}
  ~Handover() {
    if (have_all_ || !transport_) return;
    try {
      engine_.post([transport = transport_, names = std::move(names_)] {
        for (const transport::Channel name : names) transport->close_channel(name, Clock::now());
      });
    } catch (const std::bad_alloc&) {
    }
  }
  Handover(const Handover&) = delete;
  void all_have_it() { have_all_ = true; }

 private:
  Engine& engine_;
  transport::Transport* transport_;
  std::vector<transport::Channel> names_;
  bool have_all_ = false;
};

/// What streams need, such as memory of other GPUs, arrives within this time or not at all.
inline constexpr std::chrono::seconds longest_device_fetch{10};

/// Calls `look()`, which says how far this rank is, until all ranks of `comm` have what they need, which is then true,
/// or one of them never will. All ranks call it at the same place. In between the engine makes the passes in which
/// things arrive.
template <class Look>
bool fetch_together(Communicator& comm, const Look& look) {
  constexpr std::chrono::milliseconds pause{1};
  Engine& engine = *Internals::state(comm)->group.context().engine;
  std::vector<int> all(static_cast<std::size_t>(comm.size()));
  for (;;) {
    const int own = static_cast<int>(look());
    comm.all_gather(std::span{&own, 1}, all, {.algorithm = "ring"});
    const int worst = *std::max_element(all.begin(), all.end());
    if (worst != static_cast<int>(Fetched::wait)) return worst == static_cast<int>(Fetched::have);
    engine.drive_until(Clock::now() + pause);
  }
}

}  // namespace tutti::detail
