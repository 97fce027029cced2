// Memory that all ranks of a group see: made by the first of them, fetched by the others, and used by all or by none.

#include "tutti/allocate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/api/fetch_together.h"
#include "lib/base/memory_units.h"
#include "lib/base/system_error_text.h"
#include "lib/board/window.h"
#include "lib/collective/collectives.h"
#include "lib/group/context.h"

namespace tutti::detail {
namespace {

/// Memory that has not arrived so long after rank 0 has made it never will, so fetching ends.
constexpr auto longest_fetch = std::chrono::seconds{5};

/// A window and the list it is in.
struct WindowHolder {
  WindowHolder(std::shared_ptr<Windows> of, Window made) : list(std::move(of)), window(std::move(made)) {
    list->add(window);
  }
  ~WindowHolder() { list->remove(window); }
  WindowHolder(const WindowHolder&) = delete;

  std::shared_ptr<Windows> list;
  Window window;
};

Allocated ordinary(std::size_t bytes) {
  static constexpr std::align_val_t alignment{page_bytes};
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, alignment, std::nothrow));
  if (memory == nullptr) throw Error{ErrorCode::system, fmt::format("allocate: {} bytes: {}", bytes, refusal(ENOMEM))};
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

/// The memory of one allocation, on its way to this rank.
class Fetching {
 public:
  Fetching(Group& group, transport::Transport& transport, transport::Channel channel, std::size_t bytes)
      : group_(group), transport_(transport), channel_(channel), bytes_(bytes) {}

  Fetched look() {
    group_.context().engine->exclusively([this] {
      try {
        if (!memory_) memory_ = transport_.shared_memory(channel_, group_.members(), bytes_);
      } catch (const std::exception& error) {
        trouble_ = error.what();
      }
    });
    if (memory_) return Fetched::have;
    // Rank 0 makes the memory when it first looks, which takes long for much memory, and all look again after that.
    if (++looks_ == 2) until_ = Clock::now() + longest_fetch;
    if (trouble_.empty() && Clock::now() >= until_)
      trouble_ = fmt::format("{} has not handed it over within {} s", group_.name_of(0), longest_fetch.count());
    return trouble_.empty() ? Fetched::wait : Fetched::refused;
  }
  std::shared_ptr<std::byte> take() { return std::move(memory_); }
  const std::string& trouble() const { return trouble_; }

 private:
  Group& group_;
  transport::Transport& transport_;
  transport::Channel channel_;
  std::size_t bytes_;
  int looks_ = 0;
  Clock::time_point until_ = Clock::time_point::max();
  std::shared_ptr<std::byte> memory_;
  std::string trouble_;
};

Allocated Allocator::allocate(Communicator& comm, std::size_t count, std::size_t element_size) {
  Group& group = called(comm.state_, "allocate");
  if (count > std::numeric_limits<std::size_t>::max() / element_size / 2)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("allocate on rank {} of {}: {} elements of {} bytes are more than any memory holds",
                            comm.rank(), comm.size(), count, element_size)};
  const std::size_t bytes = count * element_size;
  const std::shared_ptr<CommunicatorState> state = comm.state_;
  group.context().engine->require_other_owner();  // before this call counts
  const bool is_shared = group.size() > 1 && state->collectives.shares_memory();
  transport::Transport* const transport = is_shared ? group.shared_memory() : nullptr;
  const std::uint32_t number = is_shared ? ++state->windows_made : 0;
  const transport::Channel name = name_of_window(group.id(), number);
  // Begins before this rank knows that the sizes agree, since rank 0 may know it earlier.
  Handover handover{group, transport, {name}};
  require_same_size(comm, bytes);
  if (bytes == 0) handover.all_have_it();
  if (bytes == 0 || !is_shared) return ordinary(bytes);

  if (bytes > std::numeric_limits<std::size_t>::max() / 4 / static_cast<std::size_t>(group.size()))
    throw Error{ErrorCode::invalid_argument, fmt::format("allocate on rank {} of {}: {} bytes are more than any memory "
                                                         "holds",
                                                         comm.rank(), comm.size(), bytes)};
  const std::size_t part_bytes = whole_pages(bytes);
  Fetching fetching{group, *transport, name, part_bytes * static_cast<std::size_t>(group.size())};
  if (!fetch_together(comm, [&] { return fetching.look(); })) {
    group.context().log.warn(fmt::format(
        "rank {}: allocate: {} bytes are not shared: {}", comm.rank(), bytes,
        fetching.trouble().empty() ? std::string{"another rank could not; it says why"} : fetching.trouble()));
    return ordinary(bytes);
  }
  handover.all_have_it();
  auto holder = std::make_shared<WindowHolder>(state->collectives.windows(),
                                               Window{fetching.take(), part_bytes, comm.rank(), number});
  std::byte* const own = holder->window.own();
  return {{std::move(holder), own}, true};
}

}  // namespace tutti::detail
