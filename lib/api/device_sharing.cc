#include "lib/api/device_sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>

#include "lib/api/fetch_together.h"
#include "lib/base/gpu/context.h"
#include "lib/base/index.h"
#include "lib/collective/call.h"
#include "lib/engine/engine.h"
#include "lib/group/context.h"
#include "lib/security/secret.h"
#include "transport/transport.h"

namespace tutti::detail {
namespace {

/// A number that no other process has: those in other containers may have the same pid.
std::uint64_t number_of_process() {
  static const std::uint64_t number = [] {
    std::uint64_t drawn = 0;
    if (!fill_with_random(std::as_writable_bytes(std::span{&drawn, 1})))
      throw Error{ErrorCode::system, "cannot get random bytes"};
    return drawn;
  }();
  return number;
}

/// An allocation of another process, as far as it can be told from others: a handle may come again for memory at the
/// same address.
struct Key {
  std::uint64_t process;
  std::uint64_t buffer;
  cuda::KnownContext context;
  bool operator<(const Key& other) const {
    return std::tie(process, buffer, context) < std::tie(other.process, other.buffer, other.context);
  }
};

/// An allocation of another process, in this one.
struct Import {
  cuda::Address base = 0;
  std::shared_ptr<const void> memory;
};

/// What this process has imported and still uses.
class Imports {
 public:
  template <class Make>
  std::shared_ptr<const Import> get(const Key& key, const Make& make) {
    const std::lock_guard lock{mutex_};
    std::erase_if(all_, [](const auto& one) { return one.second.expired(); });
    if (auto there = all_[key].lock()) return there;
    auto made = std::make_shared<const Import>(make());
    all_[key] = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const Import>> all_;
};

Imports& imports() {
  static Imports& all = *new Imports;
  return all;
}

template <class Memory>
Import import_of(Memory memory) {
  auto owner = std::make_shared<const Memory>(std::move(memory));
  return {owner->address(), owner};
}

}  // namespace

DeviceSharing::DeviceSharing(Communicator& comm, Group& group, Group::OfHost among, Gpu gpu, std::uint32_t number,
                             Trouble& trouble)
    : comm_(comm), group_(group), among_(std::move(among)), gpu_(gpu), number_(number), trouble_(trouble) {}

std::optional<std::vector<DeviceWindow::Part>> DeviceSharing::share(const Piece& own) {
  arrived_.clear();
  return group_.context().threads ? share_addresses(own) : share_imports(own);
}

std::uint64_t DeviceSharing::name_of(int sender) const {
  const std::size_t parts[] = {static_cast<std::size_t>(group_.id()), number_, at(sender), 0x64657669};  // "devi"
  return counts_hash(parts) << 1;
}

/// Among ranks that are threads.
std::optional<std::vector<DeviceWindow::Part>> DeviceSharing::share_addresses(const Piece& own) {
  if (!trouble_.agreed()) return std::nullopt;
  // Others may read it until all have said that they have. Where that fails it stays.
  const auto* const published = new Piece{own};
  const auto address = reinterpret_cast<std::uintptr_t>(published);
  std::vector<std::uintptr_t> all(at(comm_.size()));
  comm_.all_gather(std::span{&address, 1}, all);
  std::vector<DeviceWindow::Part> parts;
  for (const std::uintptr_t one : all) {
    const Piece& theirs = *reinterpret_cast<const Piece*>(one);
    parts.push_back({theirs.address, theirs.owner});
  }
  comm_.barrier();
  delete published;
  trouble_.attempt([&] {
    for (const DeviceWindow::Part& part : parts) cuda::let_use(part.address, gpu_.context);
  });
  if (!trouble_.agreed()) return std::nullopt;
  return parts;
}

DeviceSharing::Offer DeviceSharing::offer_of(const Piece& own) {
  const cuda::PointerFacts facts = cuda::facts_of(own.address);
  Offer offer{
      .process = number_of_process(), .offset = own.address - facts.base, .size = facts.size, .buffer = facts.buffer};
  if (facts.legacy_ipc) {
    offer.handle = cuda::legacy_handle(own.address);
    offer.way = Way::handle;
  } else if (facts.descriptor) {
    hand_over(own);
    offer.way = Way::descriptor;
  } else {
    trouble_.set(
        fmt::format("the memory at {:#x} is of a kind that processes cannot share: take that of cudaMalloc(), "
                    "or of cuMemCreate() with a file descriptor as its handle",
                    own.address));
  }
  return offer;
}

void DeviceSharing::hand_over(const Piece& own) {
  const Descriptor exported = cuda::export_descriptor_of(own.address);
  in_engine(group_, [&] {
    for (const int peer : among_.members)
      if (peer != comm_.rank()) among_.transport->give(group_.global_rank(peer), name_of(comm_.rank()), exported);
  });
}

std::optional<std::vector<DeviceWindow::Part>> DeviceSharing::share_imports(const Piece& own) {
  std::vector<transport::Channel> names;
  for (const int rank : among_.members) names.push_back(name_of(rank));
  Handover handover{group_, among_.transport, std::move(names)};
  Offer offer;
  trouble_.attempt([&] {
    const cuda::Current current{gpu_.context};
    offer = offer_of(own);
  });
  std::vector<Offer> offers(at(comm_.size()));
  comm_.all_gather(std::span{reinterpret_cast<const std::uint8_t*>(&offer), sizeof offer},
                   std::span{reinterpret_cast<std::uint8_t*>(offers.data()), offers.size() * sizeof offer});
  const bool have_all = fetch(offers);
  if (have_all) handover.all_have_it();
  std::vector<DeviceWindow::Part> parts(at(comm_.size()));
  if (have_all)
    trouble_.attempt([&] {
      const cuda::Current current{gpu_.context};
      for (const int peer : among_.members)
        parts[at(peer)] =
            peer == comm_.rank() ? DeviceWindow::Part{own.address, own.owner} : import(peer, offers[at(peer)]);
    });
  if (!have_all || !trouble_.agreed()) return std::nullopt;
  return parts;
}

/// Waits for the descriptors of other ranks. False: some rank does not get all.
bool DeviceSharing::fetch(const std::vector<Offer>& offers) {
  const auto until = Clock::now() + longest_device_fetch;
  const auto wants = [&](int peer) {
    return peer != comm_.rank() && offers[at(peer)].way == Way::descriptor && !arrived_.contains(peer);
  };
  const auto look = [&] {
    trouble_.attempt([&] {
      in_engine(group_, [&] {
        for (const int peer : among_.members)
          if (wants(peer))
            if (Descriptor given = among_.transport->take(group_.global_rank(peer), name_of(peer)))
              arrived_[peer] = std::move(given);
      });
    });
    const bool waits = std::ranges::any_of(among_.members, wants);
    if (waits && !trouble_.is_there() && Clock::now() >= until) trouble_.set("memory of other ranks has not arrived");
    if (trouble_.is_there()) return Fetched::refused;
    return waits ? Fetched::wait : Fetched::have;
  };
  return fetch_together(comm_, look);
}

DeviceWindow::Part DeviceSharing::import(int peer, const Offer& offer) {
  const Key key{offer.process, offer.buffer, cuda::KnownContext{gpu_.context}};
  const auto imported = imports().get(key, [&] {
    if (offer.way == Way::handle) return import_of(cuda::OpenedMemory{offer.handle});
    return import_of(cuda::SharedMemory::import(gpu_.device, arrived_.at(peer), offer.size));
  });
  return {imported->base + offer.offset, imported};
}

}  // namespace tutti::detail
