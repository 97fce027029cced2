// Memory of GPUs that all ranks of a communicator can use: the library's own, and the program's.

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "lib/api/communicator_state.h"
#include "lib/api/device_sharing.h"
#include "lib/api/stream_calls.h"
#include "lib/base/gpu/context.h"
#include "lib/base/internals.h"
#include "tutti/gpu_memory.h"

namespace tutti::detail {
namespace {

/// A window, and the list it is in.
struct Holder {
  Holder(std::shared_ptr<DeviceWindows> of, std::shared_ptr<const DeviceWindow> made, int rank)
      : list(std::move(of)), window(std::move(made)) {
    list->add(window, rank);
  }
  ~Holder() { list->remove(*window); }
  Holder(const Holder&) = delete;

  const std::shared_ptr<DeviceWindows> list;
  const std::shared_ptr<const DeviceWindow> window;
};

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

  /// Bytes of `count` elements, the same on all ranks. `names_gpu`: this rank knows which GPU is meant.
  std::size_t agree(std::size_t count, std::size_t element_size, bool names_gpu) {
    if (count > std::numeric_limits<std::size_t>::max() / element_size / 4)
      throw Error{ErrorCode::invalid_argument, fmt::format("{}: {} elements of {} bytes are more than any memory holds",
                                                           name_, count, element_size)};
    const std::uint64_t own[] = {count * element_size, names_gpu ? 1U : 0U};
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
    return own[0];
  }

  /// The calls of the communicator, if their ranks can use each other's memory.
  StreamCalls* calls(const DeviceStream& stream) {
    if (comm_.size() == 1) return nullptr;
    StreamCalls* const calls = state_->streams(comm_, stream);
    return calls && calls->windows() ? calls : nullptr;
  }

  /// Nothing, on all ranks: their memory cannot be shared.
  std::shared_ptr<Holder> share(StreamCalls& calls, const DeviceSharing::Piece& own, std::size_t bytes,
                                std::string trouble) {
    const std::uint32_t number = ++state_->windows_made;
    Group& group = state_->group;
    DeviceSharing sharing{comm_, group, group.shared_memory_of_host(), {calls.context(), calls.device()}, number};
    auto parts = sharing.share(own, std::move(trouble));
    if (!parts) {
      group.context().log.info(Log::Subsystem::shm, fmt::format("{}: {} bytes are not shared: {}", name_, bytes,
                                                                sharing.trouble().empty()
                                                                    ? std::string{"another rank could not; it says why"}
                                                                    : sharing.trouble()));
      return nullptr;
    }
    const std::uint64_t buffer = own.owner ? 0 : cuda::facts_of(own.address).buffer;
    return std::make_shared<Holder>(
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
  const DeviceStream stream{sharing.name(), nullptr, nullptr};
  const std::size_t bytes = sharing.agree(count, element_size, stream.is_named());
  if (bytes == 0) return {};
  StreamCalls* const calls = sharing.calls(stream);
  if (!calls) return ordinary(stream.context(), bytes);
  DeviceSharing::Piece own;
  std::string trouble;
  try {
    const cuda::Current current{calls->context()};
    auto made = std::make_shared<const cuda::SharedMemory>(cuda::SharedMemory::create(calls->device(), bytes));
    own = {made->address(), made};
  } catch (const Error& error) {
    trouble = error.what();
  }
  const std::shared_ptr<Holder> holder = sharing.share(*calls, own, bytes, std::move(trouble));
  if (!holder) return ordinary(calls->context(), bytes);
  return {{holder, pointer_to(own.address)}, true};
}

Allocated DeviceAllocator::register_memory(Communicator& comm, void* data, std::size_t count,
                                           std::size_t element_size) {
  Sharing sharing{comm, "gpu::register_memory"};
  if (count == 0)
    throw Error{ErrorCode::invalid_argument, fmt::format("{}: no elements: give those of a buffer", sharing.name())};
  const DeviceStream::Buffer buffer{"memory", data};
  const DeviceStream stream{sharing.name(), {&buffer, 1}, nullptr};
  const std::size_t bytes = sharing.agree(count, element_size, true);
  StreamCalls* const calls = sharing.calls(stream);
  if (!calls) return {{std::make_shared<int>(), pointer_to(cuda::address_of(data))}, false};
  const cuda::Address address = cuda::address_of(data);
  std::string trouble;
  try {
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
  } catch (const Error& error) {
    trouble = error.what();
    sharing.share(*calls, {address, {}}, bytes, trouble);  // tells the others
    throw;
  }
  const std::shared_ptr<Holder> holder = sharing.share(*calls, {address, {}}, bytes, {});
  if (!holder) return {{std::make_shared<int>(), pointer_to(address)}, false};
  return {{holder, pointer_to(address)}, true};
}

void DeviceAllocator::deregister_memory(Communicator& comm, Allocated registered) {
  Sharing sharing{comm, "gpu::deregister_memory"};
  const std::shared_ptr<CommunicatorState> state = Internals::state(comm);
  const bool is_shared = registered.shared;
  registered = {};
  if (is_shared) {
    const auto limit = state->group.context().timeout;
    StreamCalls* const calls = state->streams_if_any();
    if (calls && !calls->drop_removed_windows(limit))
      throw Error{ErrorCode::timeout,
                  fmt::format("{}: calls of this communicator on device memory were still on their way after {:.1f} s",
                              sharing.name(), std::chrono::duration<double>(limit).count()),
                  comm.rank()};
  }
  comm.barrier();
}

}  // namespace tutti::detail
