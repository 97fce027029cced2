// Memory that all ranks of a group see: made by the first of them, fetched by the others, and used by all or by none.

#include "tutti/allocate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "lib/call.h"
#include "lib/collectives.h"
#include "lib/communicator_state.h"
#include "lib/context.h"

namespace tutti::detail {
namespace {

constexpr std::size_t page = 4096;

/// A part of it and all that must live as long.
struct Holder {
  Holder(std::shared_ptr<CommunicatorState> of, Window made) : state(std::move(of)), window(std::move(made)) {
    state->group.collectives().windows().add(window);
  }
  ~Holder() { state->group.collectives().windows().remove(window); }
  Holder(const Holder&) = delete;

  std::shared_ptr<CommunicatorState> state;
  Window window;
};

Allocated ordinary(std::size_t bytes) {
  static constexpr std::align_val_t alignment{page};
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, alignment));
  std::fill_n(memory, bytes, std::byte{0});
  return {{memory, [](std::byte* old) { ::operator delete(old, alignment); }}, false};
}

void require_same_size(Communicator& comm, std::size_t bytes) {
  const auto own = static_cast<std::uint64_t>(bytes);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(std::span{&own, 1}, all);
  const auto other = std::ranges::find_if(all, [&](std::uint64_t theirs) { return theirs != own; });
  if (other != all.end())
    throw Error{ErrorCode::mismatch,
                fmt::format("allocate on rank {} of {}: {} bytes here, {} on rank {}: give all ranks the same count",
                            comm.rank(), comm.size(), bytes, *other, other - all.begin()),
                static_cast<int>(other - all.begin())};
}

}  // namespace

/// A collective over links carries the news around, and makes the passes in which the memory arrives.
class Fetching {
 public:
  enum State : int { have, wait, refused };

  Fetching(Group& group, transport::Transport& transport, transport::Channel channel, std::size_t bytes)
      : group_(group), transport_(transport), channel_(channel), bytes_(bytes) {}

  State look() {
    group_.context().engine->exclusively([this] {
      try {
        if (!memory_) memory_ = transport_.shared_memory(channel_, group_.members(), bytes_);
      } catch (const Error& error) {
        trouble_ = error.what();
      }
    });
    return memory_ ? have : trouble_.empty() ? wait : refused;
  }
  std::shared_ptr<std::byte> take() { return std::move(memory_); }
  const std::string& trouble() const { return trouble_; }

 private:
  Group& group_;
  transport::Transport& transport_;
  transport::Channel channel_;
  std::size_t bytes_;
  std::shared_ptr<std::byte> memory_;
  std::string trouble_;
};

Allocated Allocator::allocate(Communicator& comm, std::size_t bytes) {
  require_same_size(comm, bytes);
  const std::shared_ptr<CommunicatorState> state = comm.state_;
  Group& group = state->group;
  if (bytes == 0 || group.size() == 1 || !group.collectives().shares_memory()) return ordinary(bytes);

  const std::size_t part_bytes = (bytes + page - 1) / page * page;
  const std::uint32_t number = ++state->windows_made;
  const std::size_t name[] = {static_cast<std::size_t>(group.id()), number, 0x77696e646f77};  // "window"
  Fetching fetching{group, *group.shared_memory(), counts_hash(name) << 1,
                    part_bytes * static_cast<std::size_t>(group.size())};
  std::vector<int> states(static_cast<std::size_t>(group.size()));
  for (int worst = Fetching::wait; worst == Fetching::wait;) {
    const int own = fetching.look();
    comm.all_gather(std::span{&own, 1}, states, {.algorithm = "ring"});
    worst = std::ranges::max(states);
    if (worst != Fetching::refused) continue;
    group.context().log.warn(fmt::format(
        "rank {}: allocate: {} bytes are not shared: {}", comm.rank(), bytes,
        fetching.trouble().empty() ? std::string{"another rank could not; it says why"} : fetching.trouble()));
    return ordinary(bytes);
  }
  auto holder = std::make_shared<Holder>(state, Window{fetching.take(), part_bytes, comm.rank(), number});
  std::byte* const own = holder->window.own();
  return {{std::move(holder), own}, true};
}

}  // namespace tutti::detail
