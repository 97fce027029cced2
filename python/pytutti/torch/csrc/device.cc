#include "device.h"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "interrupts.h"

namespace tutti_torch {
namespace {

template <class Stream>
concept has_handle = requires(const Stream& stream) {
  { stream.native_handle() } -> std::convertible_to<void*>;
};

template <class Stream>
void* handle(const Stream& stream) {
  if constexpr (has_handle<Stream>)
    return stream.native_handle();
  else
    TORCH_CHECK(false, "tutti: this PyTorch does not give away its streams; tensors of GPUs need 2.13 or later");
}

template <class Stream>
bool is_capturing(const Stream& stream) {
  if constexpr (requires { stream.is_capturing(); })
    return stream.is_capturing();
  else
    return false;
}

/// Streams of the pool that lanes of this process have.
class Taken {
 public:
  static Taken& all() {
    static auto& all = *new Taken;  // backends may outlive static objects
    return all;
  }

  /// One that no lane has, or else the one that has the fewest.
  c10::Stream take(c10::Device device, Lane::Kind kind) {
    constexpr int most_tries = 64;  // the pool has 32 of a priority, and gives them in turn
    const c10::impl::VirtualGuardImpl guard{device.type()};
    const std::lock_guard lock{mutex_};
    c10::Stream best = guard.getStreamFromGlobalPool(device, true);
    for (int tries = 1; tries < most_tries && lanes_.contains(key_of(best)); ++tries) {
      const c10::Stream next = guard.getStreamFromGlobalPool(device, true);
      if (lanes_of(next) < lanes_of(best)) best = next;
    }
    ++count(lanes_[key_of(best)], kind);
    return best;
  }
  void give_back(const c10::Stream& stream, Lane::Kind kind) {
    const std::lock_guard lock{mutex_};
    const auto lanes = lanes_.find(key_of(stream));
    --count(lanes->second, kind);
    if (lanes->second == Lanes{}) lanes_.erase(lanes);
  }

 private:
  using Key = std::pair<c10::DeviceIndex, c10::StreamId>;
  /// How many lanes share a stream. A send may take long, so it is kept from the others first.
  struct Lanes {
    int others = 0;
    int sends = 0;
    auto operator<=>(const Lanes&) const = default;
  };

  static Key key_of(const c10::Stream& stream) { return {stream.device_index(), stream.id()}; }
  static int& count(Lanes& lanes, Lane::Kind kind) { return kind == Lane::Kind::sends ? lanes.sends : lanes.others; }
  Lanes lanes_of(const c10::Stream& stream) const {
    const auto found = lanes_.find(key_of(stream));
    return found == lanes_.end() ? Lanes{} : found->second;
  }

  std::mutex mutex_;
  std::map<Key, Lanes> lanes_;
};

/// On the host, which handles signals meanwhile.
void wait_for(const c10::Event& event) {
  using namespace std::chrono_literals;
  for (std::chrono::microseconds pause = 10us; !event.query();
       pause = std::min(2 * pause, std::chrono::microseconds{1ms})) {
    std::this_thread::sleep_for(pause);
    if (pause >= 1ms) handle_signals();
  }
}

}  // namespace

void* handle_of(const c10::Stream& stream) { return handle(stream); }

c10::Event place_in(const c10::Stream& stream) {
  c10::Event event{stream.device_type()};
  event.record(stream);
  return event;
}

bool passed(const c10::Event& event) noexcept {
  try {
    return event.query();
  } catch (const std::exception&) {
    return true;
  }
}

bool is_captured(const c10::Stream& stream) { return is_capturing(stream); }

void used_on(const c10::Stream& stream, const at::Tensor& tensor) {
  c10::impl::VirtualGuardImpl{stream.device_type()}.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

LaneStream::LaneStream(c10::Device device, Lane::Kind kind) : kind_(kind), stream_(Taken::all().take(device, kind)) {}

LaneStream::~LaneStream() { Taken::all().give_back(stream_, kind_); }

std::shared_ptr<const LaneStream> DeviceStreams::of(c10::Device device, const Lane& lane) {
  const std::lock_guard lock{mutex_};
  const auto key = std::tuple{device.index(), lane};
  if (const auto found = streams_.find(key); found != streams_.end()) return found->second;
  std::erase_if(streams_, [](const auto& entry) {  // nobody else holds it, and can get it meanwhile
    return std::get<Lane>(entry.first).kind == Lane::Kind::sends && entry.second.use_count() == 1;
  });
  return streams_.emplace(key, std::make_shared<const LaneStream>(device, lane.kind)).first->second;
}

void DeviceStreams::use(c10::Device device) {
  const std::lock_guard lock{mutex_};
  devices_.insert(device.index());
}

void DeviceStreams::synchronize(const std::vector<std::int64_t>& more) {
  std::vector<c10::Stream> awaited;
  {
    const std::lock_guard lock{mutex_};
    std::set devices = devices_;
    if (at::hasCUDA())  // programs for GPUs name theirs also where they run on the processor
      for (const std::int64_t index : more) devices.insert(static_cast<c10::DeviceIndex>(index));
    for (const c10::DeviceIndex index : devices) awaited.push_back(current_stream({c10::DeviceType::CUDA, index}));
    for (const auto& [key, stream] : streams_)
      if (std::get<Lane>(key).kind == Lane::Kind::collectives) awaited.push_back(stream->stream());
  }
  for (const c10::Stream& stream : awaited) wait_for(place_in(stream));
}

}  // namespace tutti_torch
