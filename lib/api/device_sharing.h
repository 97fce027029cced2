#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lib/api/trouble.h"
#include "lib/base/descriptor.h"
#include "lib/base/gpu/memory.h"
#include "lib/engine/engine.h"
#include "lib/gpu/device_windows.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "tutti/communicator.h"

namespace tutti::detail {

/// Runs `task` as the owner of the group's engine. Exceptions of it come out here.
template <class Task>
void in_engine(Group& group, const Task& task) {
  std::exception_ptr thrown;
  group.context().engine->exclusively([&] {
    try {
      task();
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  if (thrown) std::rethrow_exception(thrown);
}

/// Lets ranks that share memory use a piece of memory of each other's GPUs, of whatever kind it is: slots of links, and
/// windows. A process opens each allocation of another one once, however many pieces of it are shared.
///
/// All ranks make the same calls at the same place. Threading: one thread.
class DeviceSharing {
 public:
  /// This rank's piece.
  struct Piece {
    cuda::Address address = 0;
    std::shared_ptr<const void> owner{};  ///< null: the program's
  };
  /// This rank's.
  struct Gpu {
    cuda::Context context = nullptr;
    cuda::Device device = -1;
  };
  /// `among`: the ranks that share memory with this one. `number`: the same on all ranks, and for this object only.
  /// `trouble`: outlives this object.
  DeviceSharing(Communicator& comm, Group& group, Group::OfHost among, Gpu gpu, std::uint32_t number, Trouble& trouble);

  /// The pieces of the ranks that share memory with this one, by rank, or nothing on all ranks of the communicator.
  /// A rank that has no piece has trouble, and so has one afterwards that cannot use those of the others.
  std::optional<std::vector<DeviceWindow::Part>> share(const Piece& own);

 private:
  enum class Way : std::uint32_t { none, handle, descriptor };
  /// What a rank tells the others.
  struct Offer {
    Way way = Way::none;
    std::uint64_t process = 0;
    std::uint64_t offset = 0;  // in the allocation
    std::uint64_t size = 0;    // of the allocation
    std::uint64_t buffer = 0;  // the driver's number of it
    cuda::IpcMemoryHandle handle{};
  };

  std::uint64_t name_of(int sender) const;
  Offer offer_of(const Piece& own);
  void hand_over(const Piece& own);
  bool fetch(const std::vector<Offer>& offers);
  std::optional<std::vector<DeviceWindow::Part>> share_addresses(const Piece& own);
  std::optional<std::vector<DeviceWindow::Part>> share_imports(const Piece& own);
  DeviceWindow::Part import(int peer, const Offer& offer);

  Communicator& comm_;
  Group& group_;
  const Group::OfHost among_;
  const Gpu gpu_;
  const std::uint32_t number_;
  Trouble& trouble_;
  std::map<int, Descriptor> arrived_;
};

}  // namespace tutti::detail
