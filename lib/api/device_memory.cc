// Memory of GPUs that all ranks of a communicator can use: the library's own, and the program's.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/api/device_sharing.h"
#include "lib/api/fetch_together.h"
#include "lib/api/stream_calls.h"
#include "lib/api/stream_capture.h"
#include "lib/api/trouble.h"
#include "lib/base/gpu/context.h"
#include "lib/base/internals.h"
#include "tutti/gpu_memory.h"

namespace tutti::detail {
namespace {

/// This rank's part of a window, for as long as the program has it. All other parts are the communicator's, which lets
/// go of them where no stream uses them.
struct DevicePartHolder {
  DevicePartHolder(std::shared_ptr<DeviceWindows> of, const std::shared_ptr<const DeviceWindow>& window, int rank)
      : list(std::move(of)), number(window->number), own(window->parts[static_cast<std::size_t>(rank)].owner) {
    list->add(window, rank);
  }
  ~DevicePartHolder() { list->remove(number); }
  DevicePartHolder(const DevicePartHolder&) = delete;

  const std::shared_ptr<DeviceWindows> list;
  const std::uint32_t number;
  const std::shared_ptr<const void> own;
};

}  // namespace

/// Memory that the program has registered.
struct DeviceRegistration {
  std::weak_ptr<CommunicatorState> of;
  std::uint32_t number = 0;                  // the same on all ranks
  std::shared_ptr<DevicePartHolder> holder;  // null: it is not shared
};

namespace {

constexpr std::chrono::seconds longest_end_of_graph{1};

std::byte* pointer_to(cuda::Address address) { return reinterpret_cast<std::byte*>(address); }

/// The next steps of one allocate() or register_memory(), which all ranks take together.
class Sharing {
 public:
  Sharing(Communicator& comm, const char* what)
      : comm_(comm),
        state_(Internals::state(comm)),
        name_(fmt::format("{} on rank {} of {}", what, comm.rank(), comm.size())) {
    called(state_, what);
  }

  const std::string& name() const { return name_; }

  /// Runs `task`. If it throws on one rank, all throw, and that one its own error. `what`: it cannot do then.
  template <class Task>
  void together(const char* what, const Task& task) {
    std::exception_ptr own;
    try {
      task();
    } catch (...) {
      own = std::current_exception();
    }
    const int has_error = own ? 1 : 0;
    std::vector<int> all(static_cast<std::size_t>(comm_.size()));
    comm_.all_gather(std::span{&has_error, 1}, all);
    if (own) std::rethrow_exception(own);
    const auto wrong = std::ranges::find(all, 1);
    if (wrong == all.end()) return;
    const auto rank = static_cast<int>(wrong - all.begin());
    throw Error{ErrorCode::mismatch, fmt::format("{}: rank {} cannot {}; it says why", name_, rank, what), rank};
  }

  std::size_t bytes_of(std::size_t count, std::size_t element_size) const {
    if (count > std::numeric_limits<std::size_t>::max() / element_size / 4)
      throw Error{ErrorCode::invalid_argument, fmt::format("{}: {} elements of {} bytes are more than any memory holds",
                                                           name_, count, element_size)};
    return count * element_size;
  }

  /// Throws on all ranks unless `bytes` are the same on all, and all know which GPU is meant.
  void agree(std::size_t bytes, bool names_gpu) {
    const std::uint64_t own[] = {bytes, names_gpu ? 1U : 0U};
    std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(comm_.size()));
    comm_.all_gather(own, all);
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const std::uint64_t* const theirs = all.data() + 2 * rank;
      if (theirs[0] != own[0])
        throw Error{ErrorCode::mismatch,
                    fmt::format("{}: {} bytes here, {} on rank {}: give all ranks the same count", name_, own[0],
                                theirs[0], rank),
                    rank};
    }
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (all[2 * static_cast<std::size_t>(rank) + 1] == 0)
        throw Error{ErrorCode::invalid_argument,
                    fmt::format("{}: rank {} has several GPUs, and no context is current: make one current, as "
                                "cudaSetDevice() and a first call of CUDA's do",
                                name_, rank),
                    rank};
  }

  /// The calls of the communicator, if their ranks can use each other's memory.
  StreamCalls* calls(const DeviceStream& stream) {
    if (comm_.size() == 1) return nullptr;
    StreamCalls* const calls = state_->streams(comm_, stream);
    if (!calls || !calls->windows()) return nullptr;
    calls->drop_removed_windows();
    return calls;
  }

  /// Throws on all ranks unless all give the same registration, which is of this communicator.
  void require_same(const DeviceRegistration* own) {
    together("deregister what it gave", [&] {
      if (!own)
        throw Error{ErrorCode::invalid_argument,
                    fmt::format("{}: the registration is empty: it was moved from, or deregistered before", name_)};
      if (own->of.lock() != state_)
        throw Error{ErrorCode::invalid_argument,
                    fmt::format("{}: the registration belongs to another communicator: give that one", name_)};
    });
    std::vector<std::uint32_t> all(static_cast<std::size_t>(comm_.size()));
    comm_.all_gather(std::span{&own->number, 1}, all);
    const auto other = std::ranges::find_if(all, [&](std::uint32_t theirs) { return theirs != own->number; });
    if (other == all.end()) return;
    const auto rank = static_cast<int>(other - all.begin());
    throw Error{ErrorCode::mismatch,
                fmt::format("{}: registration {} here, {} on rank {}: let all ranks deregister what they registered "
                            "together",
                            name_, own->number, *other, rank),
                rank};
  }

  /// Until the streams of no rank have a call that was on its way before. Throws {timeout} on all ranks if that takes
  /// too long. Graphs that run have others, one after the other.
  void wait_for_calls(StreamCalls& calls) {
    const auto limit = state_->group.context().timeout;
    const auto until = deadline_after(limit);
    std::optional<Error> error;
    bool have_passed = false;
    const auto look = [&] {
      have_passed |= !calls.has_calls();
      if (have_passed) return Fetched::have;
      if (Clock::now() < until) return Fetched::wait;
      error.emplace(
          ErrorCode::timeout,
          fmt::format("{}: calls of this communicator on device memory were still on their way after {:.1f} s: wait "
                      "for them, and try again",
                      name_, std::chrono::duration<double>(limit).count()),
          comm_.rank());
      return Fetched::refused;
    };
    if (fetch_together(comm_, look)) return;
    if (error) throw Error{*error};
    throw Error{ErrorCode::timeout, fmt::format("{}: calls of another rank are still on their way: wait for them, and "
                                                "try again",
                                                name_)};
  }

  /// Throws on all ranks if graphs of one have calls with the window. The driver tells only later that one is gone.
  void wait_for_graphs(StreamCalls& calls, std::uint32_t window) {
    together("deregister what it gave", [&] {
      const auto until = Clock::now() + longest_end_of_graph;
      while (calls.graphs().use(window)) {
        if (Clock::now() >= until)
          throw Error{ErrorCode::invalid_argument,
                      fmt::format("{}: a graph has a call with this memory: destroy first what was captured, and "
                                  "instantiated from it",
                                  name_)};
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
    });
  }

  std::shared_ptr<DeviceRegistration> registration_of(std::shared_ptr<DevicePartHolder> holder) {
    const std::uint32_t number = ++state_->windows_made;
    return std::make_shared<DeviceRegistration>(DeviceRegistration{state_, number, std::move(holder)});
  }

  /// Nothing, on all ranks: their memory cannot be shared.
  std::shared_ptr<DevicePartHolder> share(StreamCalls& calls, const DeviceSharing::Piece& own, std::size_t bytes,
                                          Trouble& trouble) {
    const std::uint32_t number = ++state_->windows_made;
    Group& group = state_->group;
    DeviceSharing sharing{comm_,  group,  group.shared_memory_of_host(), {calls.context(), calls.device()},
                          number, trouble};
    auto parts = sharing.share(own);
    if (!parts) {
      group.context().log.info(
          Log::Subsystem::shm,
          fmt::format("{}: {} bytes are not shared: {}", name_, bytes,
                      trouble.is_there() ? trouble.text() : "another rank could not; it says why"));
      return nullptr;
    }
    const std::uint64_t buffer = own.owner ? 0 : cuda::facts_of(own.address).buffer;
    return std::make_shared<DevicePartHolder>(
        calls.windows(), std::make_shared<const DeviceWindow>(DeviceWindow{std::move(*parts), bytes, number, buffer}),
        comm_.rank());
  }

 private:
  Communicator& comm_;
  const std::shared_ptr<CommunicatorState> state_;
  const std::string name_;
};

Allocated ordinary(cuda::Context context, std::size_t bytes) {
  const cuda::Current current{context};
  auto memory = std::make_shared<const cuda::DeviceMemory>(bytes);
  const cuda::Address address = memory->address();
  return {{std::move(memory), pointer_to(address)}, false};
}

}  // namespace

Allocated DeviceAllocator::allocate(Communicator& comm, std::size_t count, std::size_t element_size) {
  Sharing sharing{comm, "gpu::allocate"};
  std::size_t bytes = 0;
  std::optional<DeviceStream> stream;
  sharing.together("allocate memory", [&] {
    bytes = sharing.bytes_of(count, element_size);
    stream.emplace(sharing.name(), nullptr, nullptr);
  });
  sharing.agree(bytes, stream->is_named());
  if (bytes == 0) return {};
  Allocated made;
  const auto make_ordinary = [&](cuda::Context context) {
    sharing.together("allocate memory", [&] { made = ordinary(context, bytes); });
    return std::move(made);
  };
  StreamCalls* const calls = sharing.calls(*stream);
  if (!calls) return make_ordinary(stream->context());
  DeviceSharing::Piece own;
  Trouble trouble{comm};
  trouble.attempt([&] {
    const cuda::Current current{calls->context()};
    auto shared = std::make_shared<const cuda::SharedMemory>(cuda::SharedMemory::create(calls->device(), bytes));
    own = {shared->address(), shared};
  });
  const std::shared_ptr<DevicePartHolder> holder = sharing.share(*calls, own, bytes, trouble);
  if (!holder) return make_ordinary(calls->context());
  return {{holder, pointer_to(own.address)}, true};
}

Registered DeviceAllocator::register_memory(Communicator& comm, void* data, std::size_t count,
                                            std::size_t element_size) {
  Sharing sharing{comm, "gpu::register_memory"};
  constexpr const char* what = "register its memory";
  std::size_t bytes = 0;
  std::optional<DeviceStream> stream;
  sharing.together(what, [&] {
    if (count == 0)
      throw Error{ErrorCode::invalid_argument, fmt::format("{}: no elements: give those of a buffer", sharing.name())};
    bytes = sharing.bytes_of(count, element_size);
    const DeviceStream::Buffer buffer{"memory", data};
    stream.emplace(sharing.name(), std::span{&buffer, 1}, nullptr, "only memory of a GPU can be registered");
  });
  sharing.agree(bytes, true);
  StreamCalls* const calls = sharing.calls(*stream);
  if (!calls) return {sharing.registration_of(nullptr), false};
  const cuda::Address address = cuda::address_of(data);
  sharing.together(what, [&] {
    calls->windows()->require_free(sharing.name(), address, bytes);
    const cuda::PointerFacts facts = cuda::facts_of(address);
    if (facts.device != calls->device())
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("{}: the memory is on GPU {}, and the calls of this communicator are on GPU {}",
                              sharing.name(), facts.device, calls->device())};
    if (bytes > facts.size - (address - facts.base))
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("{}: {} bytes from {:#x} on reach beyond their allocation of {} bytes at {:#x}",
                              sharing.name(), bytes, address, facts.size, facts.base)};
  });
  Trouble trouble{comm};
  std::shared_ptr<DevicePartHolder> holder = sharing.share(*calls, {address, {}}, bytes, trouble);
  const bool is_shared = holder != nullptr;
  return {sharing.registration_of(std::move(holder)), is_shared};
}

/// Nothing has changed on any rank until all have said that nothing is wrong.
void DeviceAllocator::deregister_memory(Communicator& comm, Registered& registered) {
  Sharing sharing{comm, "gpu::deregister_memory"};
  sharing.require_same(registered.registration.get());
  StreamCalls* const calls = Internals::state(comm)->streams_if_any();
  if (registered.shared) {
    sharing.wait_for_graphs(*calls, registered.registration->holder->number);
    sharing.wait_for_calls(*calls);
  }
  const std::uint32_t window = registered.shared ? registered.registration->holder->number : 0;
  registered = {};
  // Calls of graphs that run now have no part of it, and are no reason to keep it.
  if (window) calls->windows()->drop_removed(window);
  comm.barrier();  // all have closed it
}

}  // namespace tutti::detail
