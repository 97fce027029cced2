#include "lib/api/stream_setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <map>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/api/fetch_together.h"
#include "lib/base/environment.h"
#include "lib/base/gpu/context.h"
#include "lib/collective/call.h"
#include "lib/compute/gpu/image.h"
#include "lib/gpu/device_kernels.h"
#include "lib/group/context.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using transport::StreamLinks;

constexpr std::size_t usual_slot_bytes = std::size_t{1} << 20;
constexpr std::uint32_t slots = 2;        // so that a rank may be a message ahead
constexpr std::size_t staging_slots = 8;  // of which a staging area has the size
constexpr auto longest_fetch = 10s;
constexpr auto longest_trial = 5s;

using Mode = GpuMode;

/// What ranks tell each other about their GPUs.
struct Facts {
  cuda::Uuid uuid{};
  Mode mode{};
  bool has_kernels = false;  // that combine
  bool shares_by_descriptors = false;
  bool names_gpu = true;
  std::int32_t host = 0;  // the first rank that shares memory with this one
  std::uint64_t slot_bytes = 0;
  char why_not[160] = {};  // empty: this rank's GPU can use links
};

Mode wanted_mode() { return static_cast<Mode>(environment::word("TUTTI_GPU_MODE").value_or(0)); }

std::size_t wanted_slot_bytes() {
  return environment::number("TUTTI_GPU_SLOT_BYTES").value_or(usual_slot_bytes) / 256 * 256;
}

/// How ranks let each other use their memory.
enum class Sharing : std::uint8_t { addresses, descriptors, handles };

class SetUp {
 public:
  SetUp(Communicator& comm, CommunicatorState& state)
      : comm_(comm), group_(state.group), state_(state), memory_(group_.shared_memory_of_host()) {}

  std::optional<std::unique_ptr<StreamCalls>> run(const DeviceStream& stream) {
    look_at_own(stream);
    std::vector<Facts> all(at(comm_.size()));
    comm_.all_gather(std::span{&own_, 1}, all);
    if (std::ranges::none_of(all, [](const Facts& one) { return one.mode == Mode::staged; }) &&
        !std::ranges::all_of(all, &Facts::names_gpu))
      return std::nullopt;
    return decide(all);
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  std::unique_ptr<StreamCalls> decide(const std::vector<Facts>& all) {
    std::vector<Mode> modes;
    std::ranges::transform(all, std::back_inserter(modes), &Facts::mode);
    const Mode mode = agreed_mode(modes);
    const std::string why_not = why_staged(all, mode);
    if (!why_not.empty()) return staged(why_not, mode);
    if (are_on_one_host(all)) runners_ = runners_for(mode, gpus_of(all));
    reduces_ = std::ranges::all_of(all, &Facts::has_kernels);
    form_ = {comm_.size(), all.front().slot_bytes, slots, ranks_of_host(all, own_.host),
             runners_.by_rank.empty() ? 0 : staging_slots * all.front().slot_bytes};
    hosts_.ranks_on_each = ranks_on_each_host(all);
    const bool by_descriptors = std::ranges::all_of(all, &Facts::shares_by_descriptors);
    for (const Sharing sharing : {Sharing::addresses, Sharing::descriptors, Sharing::handles}) {
      if ((sharing == Sharing::addresses) != group_.context().threads) continue;
      if (sharing == Sharing::descriptors && !by_descriptors) continue;
      if (auto made = connect(sharing)) return made;
    }
    return staged(trouble_.empty() ? "another rank could not; it says why" : trouble_, mode);
  }

  static bool are_on_one_host(const std::vector<Facts>& all) {
    return std::ranges::all_of(all, [&](const Facts& one) { return one.host == all.front().host; });
  }

  static std::vector<int> gpus_of(const std::vector<Facts>& all) {
    std::vector<int> first;
    for (const Facts& one : all)
      first.push_back(static_cast<int>(std::ranges::find(all, one.uuid, &Facts::uuid) - all.begin()));
    return first;
  }

  void look_at_own(const DeviceStream& stream) {
    own_.mode = wanted_mode();
    own_.slot_bytes = wanted_slot_bytes();
    own_.has_kernels = !compute::gpu::image().empty();
    own_.names_gpu = stream.is_named();
    own_.host = memory_.members.front();
    std::string why_not;
    try {
      context_ = stream.context();
      device_ = stream.device();
      const cuda::DeviceFacts facts = cuda::facts_of(device_);
      own_.uuid = facts.uuid;
      own_.shares_by_descriptors = facts.virtual_memory;
      if (!facts.memory_operations || !stream.can_wait_for_host())
        why_not = "its streams cannot wait for words of the host";
    } catch (const std::exception& error) {
      why_not = error.what();
    }
    std::memcpy(own_.why_not, why_not.data(), std::min(why_not.size(), sizeof own_.why_not - 1));
  }

  static std::vector<int> ranks_of_host(const std::vector<Facts>& all, int host) {
    std::vector<int> ranks;
    for (int rank = 0; std::cmp_less(rank, all.size()); ++rank)
      if (all[at(rank)].host == host) ranks.push_back(rank);
    return ranks;
  }

  /// 0: not the same, or not neighbours.
  static int ranks_on_each_host(const std::vector<Facts>& all) {
    const auto ranks = static_cast<int>(ranks_of_host(all, 0).size());
    for (int rank = 0; std::cmp_less(rank, all.size()); ++rank)
      if (all[at(rank)].host != rank / ranks * ranks) return 0;
    return all.size() % at(ranks) == 0 ? ranks : 0;
  }

  /// From what all ranks know.
  std::string why_staged(const std::vector<Facts>& all, Mode mode) const {
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (all[at(rank)].mode == Mode::staged) return fmt::format("TUTTI_GPU_MODE of rank {} says so", rank);
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (all[at(rank)].why_not[0] != 0) return fmt::format("rank {}: {}", rank, all[at(rank)].why_not);
    if (shares_memory(mode) && comm_.size() > most_sharing)
      return fmt::format("{} ranks are more than a kernel has inputs ({})", comm_.size(), most_sharing);
    if (shares_memory(mode) && !are_on_one_host(all)) return "its ranks do not all share memory";
    if (mode != Mode::automatic || (are_on_one_host(all) && comm_.size() <= most_sharing)) return {};
    const std::vector<int> gpus = gpus_of(all);
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (gpus[at(rank)] != rank)
        return fmt::format("ranks {} and {} share a GPU, which would alternate between them", gpus[at(rank)], rank);
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (all[at(rank)].host != rank) return {};
    return "no two ranks share memory, so that all bytes go through the host anyway";
  }

  std::unique_ptr<StreamCalls> staged(const std::string& why, Mode mode) const {
    if (shares_memory(mode))
      throw Error{ErrorCode::unsupported, fmt::format("rank {}: TUTTI_GPU_MODE={} is not possible here: {}; set "
                                                      "TUTTI_GPU_MODE=auto, which finds out what is",
                                                      comm_.rank(), detail::name_of(mode), why)};
    say(fmt::format("calls on device memory are staged through the host: {}", why));
    return nullptr;
  }

  // ---- One way of sharing

  /// Null, on all ranks: it does not work here.
  std::unique_ptr<StreamCalls> connect(Sharing sharing) {
    sharing_ = sharing;
    trouble_.clear();
    until_ = Clock::now() + longest_fetch;
    words_.reset();
    slots_.assign(at(comm_.size()), {});
    arrived_.clear();
    std::unique_ptr<StreamCalls> made;
    if (sharing == Sharing::addresses     ? share_by_addresses()
        : sharing == Sharing::descriptors ? share_by_descriptors()
                                          : share_by_handles()) {
      attempt([&] { made = make_calls(); });
      if (agreed()) {
        attempt([&] {
          if (!made->try_links(longest_trial)) trouble_ = "a trial of the links between GPUs moved wrong bytes";
        });
        if (agreed()) {
          say(fmt::format("calls on device memory run on streams, over {} slots of {} bytes per link{}", slots,
                          form_.slot_bytes, links_in_words() + to_string(runners_)));
          return made;
        }
      }
    }
    constexpr const char* ways[] = {"addresses", "descriptors", "IPC handles"};
    if (!trouble_.empty())
      say(fmt::format("memory of GPUs cannot be shared by {}: {}", ways[static_cast<int>(sharing)], trouble_));
    return nullptr;
  }
  std::string links_in_words() const {
    if (!is_across_hosts()) return {};
    return fmt::format(
        "; links to the ranks {} are in memory of GPUs, all others staged, {}", fmt::join(form_.sharing, " "),
        hosts_.ranks_on_each > 1 ? fmt::format("and plans expect {} ranks per host", hosts_.ranks_on_each)
                                 : "and plans do not look at hosts");
  }
  bool is_across_hosts() const { return form_.sharing.size() < at(comm_.size()); }
  void say(const std::string& text) const { group_.context().log.info(Log::Subsystem::shm, text); }

  template <class Part>
  void attempt(const Part& part) {
    try {
      if (trouble_.empty()) part();
    } catch (const std::exception& error) {
      trouble_ = error.what();
    }
  }
  /// Whether no rank has trouble.
  bool agreed() {
    int all_well = trouble_.empty() ? 1 : 0;
    comm_.all_reduce(std::span{&all_well, 1}, min);
    return all_well == 1;
  }

  /// Names of what ranks hand over: the words, and each rank's slots.
  transport::Channel name_of(int sender) const {
    const std::size_t parts[] = {static_cast<std::size_t>(group_.id()), at(sender), static_cast<std::size_t>(sharing_),
                                 0x736c6f7473};  // "slots"
    return counts_hash(parts) << 1;
  }
  static constexpr int sender_of_words = 1 << 30;
  static constexpr int channel_between_hosts = sender_of_words + 1;

  /// Among ranks that are threads.
  bool share_by_addresses() {
    StreamLinks::Slots own;
    attempt([&] {
      const cuda::Current current{context_};
      own = slots_in(cuda::SharedMemory::create(device_, form_.slots_bytes()));
    });
    if (!fetch_all()) return false;
    const StreamLinks::Slots* const place = &own;
    std::vector<std::uintptr_t> all(at(comm_.size()));
    const auto number = reinterpret_cast<std::uintptr_t>(place);
    comm_.all_gather(std::span{&number, 1}, all);
    std::ranges::transform(all, slots_.begin(),
                           [](std::uintptr_t one) { return *reinterpret_cast<const StreamLinks::Slots*>(one); });
    return agreed();  // all have copied them
  }

  bool share_by_descriptors() {
    cuda::SharedMemory own;
    attempt([&] {
      const cuda::Current current{context_};
      own = cuda::SharedMemory::create(device_, form_.slots_bytes());
      const Descriptor exported = own.export_descriptor();
      in_engine([&] {
        for (const int peer : form_.sharing)
          if (peer != comm_.rank()) memory_.transport->give(group_.global_rank(peer), name_of(comm_.rank()), exported);
      });
    });
    if (!fetch_all()) return false;
    attempt([&] {
      const cuda::Current current{context_};
      const std::size_t bytes = own.size();
      for (const auto& [peer, exported] : arrived_)
        slots_[at(peer)] = slots_in(cuda::SharedMemory::import(device_, exported, bytes));
      slots_[at(comm_.rank())] = slots_in(std::move(own));
    });
    return agreed();
  }

  bool share_by_handles() {
    std::vector<cuda::IpcMemoryHandle> all(at(comm_.size()));
    cuda::IpcMemoryHandle handle{};
    attempt([&] {
      const cuda::Current current{context_};
      // Never freed: that must not happen while another process has it open, and would wait for all streams.
      const auto& own = *new cuda::DeviceMemory{form_.slots_bytes()};
      slots_[at(comm_.rank())] = {own.address()};
      handle = cuda::legacy_handle(own.address());
    });
    if (!fetch_all()) return false;
    comm_.all_gather(std::span{&handle, 1}, all);
    attempt([&] {
      const cuda::Current current{context_};
      for (const int peer : form_.sharing)
        if (peer != comm_.rank()) slots_[at(peer)] = slots_in(cuda::OpenedMemory{all[at(peer)]});
    });
    return agreed();
  }

  template <class Memory>
  static StreamLinks::Slots slots_in(Memory memory) {
    auto owner = std::make_shared<const Memory>(std::move(memory));
    return {owner->address(), owner};
  }

  /// Exceptions of `task` come out here.
  template <class Task>
  void in_engine(const Task& task) {
    std::exception_ptr thrown;
    group_.context().engine->exclusively([&] {
      try {
        task();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    if (thrown) std::rethrow_exception(thrown);
  }

  /// False: some rank does not get what it needs.
  bool fetch_all() {
    if (fetch_together(comm_, [this] { return fetch(); })) return true;
    // Drops what may still arrive, or was still to be handed over.
    in_engine([&] {
      if (!memory_.transport) return;
      memory_.transport->close_channel(name_of(sender_of_words), Clock::now());
      for (const int rank : form_.sharing) memory_.transport->close_channel(name_of(rank), Clock::now());
    });
    return false;
  }

  Fetched fetch() {
    bool have = false;
    attempt([&] { in_engine([&] { have = look(); }); });
    if (trouble_.empty() && have) return Fetched::have;
    if (trouble_.empty() && Clock::now() >= until_) trouble_ = "memory of other ranks has not arrived";
    return trouble_.empty() ? Fetched::wait : Fetched::refused;
  }

  bool look() {
    if (!words_) words_ = get_words();
    if (sharing_ != Sharing::descriptors) return words_ != nullptr;
    for (const int peer : form_.sharing) {
      if (peer == comm_.rank() || arrived_.contains(peer)) continue;
      if (Descriptor given = memory_.transport->take(group_.global_rank(peer), name_of(peer)))
        arrived_[peer] = std::move(given);
    }
    return words_ && arrived_.size() + 1 == form_.sharing.size();
  }

  std::shared_ptr<std::byte> get_words() {
    if (!memory_.transport) {  // alone on its host
      constexpr std::align_val_t page{4096};
      auto* const memory = new (page) std::byte[form_.words_bytes()]();
      return {memory, [page](std::byte* old) { ::operator delete[](old, page); }};
    }
    std::vector<int> members;
    for (const int rank : form_.sharing) members.push_back(group_.global_rank(rank));
    return memory_.transport->shared_memory(name_of(sender_of_words), members, form_.words_bytes());
  }

  std::unique_ptr<StreamCalls> make_calls() {
    const cuda::Current current{context_};
    hosts_.channel = name_of(channel_between_hosts);
    return std::make_unique<StreamCalls>(
        group_, state_.collectives,
        std::make_unique<StreamLinks>(comm_.rank(), form_, std::move(words_), std::move(slots_)), runners_, hosts_,
        reduces_ ? &DeviceKernels::get() : nullptr, context_);
  }

  Communicator& comm_;
  Group& group_;
  CommunicatorState& state_;
  const Group::OfHost memory_;
  Facts own_;
  bool reduces_ = false;
  Runners runners_;
  StreamLinks::Form form_;
  StreamCalls::Hosts hosts_;
  cuda::Context context_ = nullptr;
  cuda::Device device_ = -1;
  std::string trouble_;  // of this rank
  Sharing sharing_{};
  Clock::time_point until_;
  std::shared_ptr<std::byte> words_;
  std::vector<StreamLinks::Slots> slots_;  // by rank
  std::map<int, Descriptor> arrived_;
};

}  // namespace

std::optional<std::unique_ptr<StreamCalls>> set_up_streams(Communicator& comm, CommunicatorState& state,
                                                           const DeviceStream& stream) {
  const Group& group = state.group;
  // All ranks know this. While a rank that is a thread frees memory, the driver keeps all of them out.
  if (group.size() == 1 || (group.context().threads && wanted_mode() < Mode::streams))
    return std::unique_ptr<StreamCalls>{};
  const Within within{state.group, "its first call on device memory"};
  return SetUp{comm, state}.run(stream);
}

}  // namespace tutti::detail
