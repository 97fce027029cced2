#include "lib/api/stream_setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/api/communicator_state.h"
#include "lib/api/device_sharing.h"
#include "lib/api/fetch_together.h"
#include "lib/api/gpu_facts.h"
#include "lib/api/trouble.h"
#include "lib/base/gpu/context.h"
#include "lib/base/index.h"
#include "lib/base/memory_units.h"
#include "lib/collective/call.h"
#include "lib/gpu/device_kernels.h"
#include "lib/group/context.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using transport::StreamLinks;

constexpr std::uint32_t slots = 2;        // so that a rank may be a message ahead
constexpr std::size_t staging_slots = 8;  // of which a staging area has the size
constexpr auto longest_trial = 5s;

/// The kind of memory in which a rank has its slots.
enum class SlotMemory : std::uint8_t { by_address, by_descriptor, by_handle };

class SetUp {
 public:
  SetUp(Communicator& comm, CommunicatorState& state)
      : comm_(comm), group_(state.group), state_(state), memory_(group_.shared_memory_of_host()), trouble_(comm) {}

  std::optional<std::unique_ptr<StreamCalls>> run(const DeviceStream& stream) {
    const GpuFacts own = facts_of_own(stream, memory_.members.front());
    std::vector<GpuFacts> all(at(comm_.size()));
    comm_.all_gather(std::span{&own, 1}, all);
    const GpusOfRanks gpus{std::move(all)};
    if (!gpus.can_decide()) return std::nullopt;
    const GpuMode mode = gpus.mode();
    if (const std::string why_not = gpus.why_staged(); !why_not.empty()) return staged(why_not, mode);
    context_ = stream.context();
    device_ = stream.device();
    return connect(gpus, mode, own.host);
  }

 private:
  std::unique_ptr<StreamCalls> staged(const std::string& why, GpuMode mode) const {
    if (shares_memory(mode))
      throw Error{ErrorCode::unsupported, fmt::format("rank {}: TUTTI_GPU_MODE={} is not possible here: {}; set "
                                                      "TUTTI_GPU_MODE=auto, which finds out what is",
                                                      comm_.rank(), name_of(mode), why)};
    say(fmt::format("calls on device memory are staged through the host: {}", why));
    return nullptr;
  }

  std::unique_ptr<StreamCalls> connect(const GpusOfRanks& gpus, GpuMode mode, int host) {
    if (gpus.are_on_one_host()) runners_ = runners_for(mode, gpus.first_on_gpu());
    reduces_ = gpus.have_kernels();
    form_ = {comm_.size(), gpus.slot_bytes(), slots, gpus.ranks_of_host(host),
             runners_.by_rank.empty() ? 0 : staging_slots * gpus.slot_bytes()};
    hosts_.ranks_on_each = gpus.ranks_on_each_host();
    std::vector<SlotMemory> ways{SlotMemory::by_address};
    if (!group_.context().threads) {
      ways = {SlotMemory::by_handle};
      if (gpus.share_by_descriptors()) ways.insert(ways.begin(), SlotMemory::by_descriptor);
    }
    for (const SlotMemory way : ways)
      if (auto made = connect(way)) return made;
    return staged(trouble_.is_there() ? trouble_.text() : "another rank could not; it says why", mode);
  }

  /// Null, on all ranks: it does not work here.
  std::unique_ptr<StreamCalls> connect(SlotMemory way) {
    number_ = ++state_.windows_made;
    trouble_.clear();
    words_.reset();
    std::unique_ptr<StreamCalls> made;
    if (std::optional<std::vector<StreamLinks::Slots>> all = share_slots(way)) {
      trouble_.attempt([&] { made = make_calls(std::move(*all)); });
      if (trouble_.agreed()) {
        trouble_.attempt([&] {
          if (!made->try_links(longest_trial)) trouble_.set("a trial of the links between GPUs moved wrong bytes");
        });
        if (trouble_.agreed()) {
          say(fmt::format("calls on device memory run on streams, over {} slots of {} bytes per link{}", slots,
                          form_.slot_bytes, links_in_words() + to_string(runners_)));
          return made;
        }
      }
    }
    constexpr const char* ways[] = {"addresses", "descriptors", "IPC handles"};
    if (trouble_.is_there())
      say(fmt::format("memory of GPUs cannot be shared by {}: {}", ways[static_cast<int>(way)], trouble_.text()));
    return nullptr;
  }

  std::string links_in_words() const {
    if (form_.sharing.size() == at(comm_.size())) return {};
    return fmt::format(
        "; links to the ranks {} are in memory of GPUs, all others staged, {}", fmt::join(form_.sharing, " "),
        hosts_.ranks_on_each > 1 ? fmt::format("and plans expect {} ranks per host", hosts_.ranks_on_each)
                                 : "and plans do not look at hosts");
  }
  void say(const std::string& text) const { group_.context().log.info(Log::Subsystem::shm, text); }

  // ---- The slots, which all ranks of the host map

  DeviceSharing::Piece own_slots(SlotMemory way) const {
    const cuda::Current current{context_};
    if (way == SlotMemory::by_handle)
      // Never freed: that must not happen while another process has it open, and would wait for all streams.
      return {(new cuda::DeviceMemory{form_.slots_bytes()})->address()};
    auto memory = std::make_shared<const cuda::SharedMemory>(cuda::SharedMemory::create(device_, form_.slots_bytes()));
    return {memory->address(), memory};
  }

  std::optional<std::vector<StreamLinks::Slots>> share_slots(SlotMemory way) {
    DeviceSharing::Piece own;
    trouble_.attempt([&] { own = own_slots(way); });
    if (!fetch_words()) return std::nullopt;
    DeviceSharing sharing{comm_, group_, memory_, {context_, device_}, number_, trouble_};
    const auto parts = sharing.share(own);
    if (!parts) return std::nullopt;
    std::vector<StreamLinks::Slots> all;
    for (const DeviceWindow::Part& part : *parts) all.push_back({part.address, part.owner});
    return all;
  }

  // ---- The words, which all ranks of the host map

  /// Names of what belongs to this attempt.
  transport::Channel channel_of(std::size_t what) const {
    const std::size_t parts[] = {static_cast<std::size_t>(group_.id()), number_, what, 0x736c6f7473};  // "slots"
    return counts_hash(parts) << 1;
  }
  static constexpr std::size_t words = 0, between_hosts = 1;

  /// False: some rank does not get them.
  bool fetch_words() {
    Handover handover{group_, memory_.transport, {channel_of(words)}};
    const auto until = Clock::now() + longest_device_fetch;
    const auto look = [&] {
      trouble_.attempt([&] { in_engine(group_, [&] { words_ = get_words(); }); });
      if (!trouble_.is_there() && words_) return Fetched::have;
      if (!trouble_.is_there() && Clock::now() >= until) trouble_.set("the words of links have not arrived");
      return trouble_.is_there() ? Fetched::refused : Fetched::wait;
    };
    if (!fetch_together(comm_, look)) return false;
    handover.all_have_it();
    return true;
  }

  std::shared_ptr<std::byte> get_words() {
    if (words_) return words_;
    if (!memory_.transport) {  // alone on its host
      static constexpr std::align_val_t page{page_bytes};
      auto* const memory = new (page) std::byte[form_.words_bytes()]();
      return {memory, [](std::byte* old) { ::operator delete[](old, page); }};
    }
    std::vector<int> members;
    for (const int rank : form_.sharing) members.push_back(group_.global_rank(rank));
    return memory_.transport->shared_memory(channel_of(words), members, form_.words_bytes());
  }

  std::unique_ptr<StreamCalls> make_calls(std::vector<StreamLinks::Slots> all) {
    const cuda::Current current{context_};
    hosts_.channel = channel_of(between_hosts);
    return std::make_unique<StreamCalls>(
        group_, state_.collectives,
        std::make_unique<StreamLinks>(comm_.rank(), form_, std::move(words_), std::move(all)), runners_, hosts_,
        reduces_ ? &DeviceKernels::get() : nullptr, context_);
  }

  Communicator& comm_;
  Group& group_;
  CommunicatorState& state_;
  const Group::OfHost memory_;
  bool reduces_ = false;
  Runners runners_;
  StreamLinks::Form form_;
  StreamCalls::Hosts hosts_;
  cuda::Context context_ = nullptr;
  cuda::Device device_ = -1;
  std::uint32_t number_ = 0;  // of the attempt
  Trouble trouble_;
  std::shared_ptr<std::byte> words_;
};

}  // namespace

std::optional<std::unique_ptr<StreamCalls>> set_up_streams(Communicator& comm, CommunicatorState& state,
                                                           const DeviceStream& stream) {
  const Group& group = state.group;
  // All ranks know this. While a rank that is a thread frees memory, the driver keeps all of them out.
  if (group.size() == 1 || (group.context().threads && wanted_mode() < GpuMode::streams))
    return std::unique_ptr<StreamCalls>{};
  const Within within{state.group, "its first call on device memory"};
  return SetUp{comm, state}.run(stream);
}

}  // namespace tutti::detail
