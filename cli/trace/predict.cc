#include "cli/trace/predict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "cli/measure/median.h"
#include "cli/simulate/events.h"
#include "lib/base/collective_traits.h"
#include "lib/failure/diagnosis.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using detail::on_streams;

constexpr double picoseconds = 1000;

struct Sample {
  double bytes;
  double time;
};

/// time = first + second * bytes, neither negative, through the medians of messages of similar size. Where sizes hardly
/// differ, bytes take all of the time of large messages, which so keep a port busy, and none of that of small ones.
std::pair<double, double> fit(const std::vector<Sample>& samples) {
  std::map<double, std::vector<double>> times;  // keyed by the typical size of the size class
  for (const Sample& sample : samples)
    times[std::exp2(std::floor(std::log2(sample.bytes + 1) + 0.5))].push_back(sample.time);
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [bytes, all] : times) {
    const double time = measure::median(all);
    n += 1, x += bytes, y += time, xx += bytes * bytes, xy += bytes * time;
  }
  constexpr double large = 16384;
  if (times.size() == 1 && x >= large) return {0, y / x};
  const double spread = n * xx - x * x;
  const double slope = spread > 0 ? std::max(0.0, (n * xy - x * y) / spread) : 0;
  return {std::max(0.0, (y - slope * x) / n), slope};
}

/// Its ranks used each other's buffers: in the last round they only said that they were done. Its data are in no
/// message.
bool is_in_window(const TracedCall& call) {
  std::map<std::uint32_t, std::uint64_t> bytes;  // by round
  for (const TracedMessage& reading : call.readings) bytes[reading.step] += reading.bytes;
  return bytes.size() == 2 && bytes.begin()->second > 0 && bytes.rbegin()->second == 0;
}

}  // namespace

std::optional<simulate::SimulatedCall> simulated_call_of(const TracedCall& call) {
  const int ranks = static_cast<int>(call.members().size());
  if (ranks < 2 || call.variable || call.root >= ranks) return std::nullopt;
  simulate::SimulatedCall simulated;
  simulated.collective = call.collective;
  simulated.ranks = ranks;
  simulated.root = std::max(call.root, 0);
  simulated.bytes = call.bytes * (detail::traits_of(call.collective).has_parts() ? static_cast<std::size_t>(ranks) : 1);
  simulated.element = call.element;
  try {
    std::string_view algorithm = call.algorithm;
    if (algorithm.ends_with(on_streams)) algorithm.remove_suffix(on_streams.size());
    simulated.choice = settled(algorithms::find(call.collective, std::string{algorithm}), ranks, simulated.bytes);
  } catch (const Error&) {
    return std::nullopt;  // an algorithm of another version, or one read from a file
  }
  return simulated;
}

std::optional<Prediction> predict(const TracedCall& call, const std::vector<const TracedCall*>& calls) {
  std::vector<Sample> samples;
  if (is_in_window(call)) return std::nullopt;
  for (const TracedCall* one : calls) {
    if (is_in_window(*one)) continue;
    for (const TracedMessage& message : one->messages) {
      const std::int64_t time = message.received - std::max(message.given, message.expected);
      if (time < 0) continue;  // the clocks of the two hosts have drifted apart
      samples.push_back({static_cast<double>(message.bytes), static_cast<double>(time)});
    }
  }
  const std::optional<simulate::SimulatedCall> simulated = simulated_call_of(call);
  if (samples.empty() || !simulated) return std::nullopt;
  const auto [latency, per_byte] = fit(samples);
  simulate::Network network;
  network.socket = network.host = network.leaf = simulated->ranks;
  network.links.fill({{.from = 0, .latency = latency * picoseconds, .gap = 0, .per_byte = per_byte * picoseconds}});
  std::vector<simulate::SimulatedMessage> messages;
  std::optional<simulate::Result> result;
  try {
    result = simulate::run_events(*simulated, network, &messages);
  } catch (const Error&) {
    return std::nullopt;  // too large to be simulated
  }
  if (!result) return std::nullopt;
  Prediction prediction{result->seconds * 1e9, {}};
  for (const simulate::SimulatedMessage& message : messages)
    prediction.messages.push_back({message.from, message.step, message.begin / picoseconds, message.end / picoseconds});
  std::sort(prediction.messages.begin(), prediction.messages.end(), [](const auto& a, const auto& b) {
    return std::pair{a.from, a.step} < std::pair{b.from, b.step};
  });
  return prediction;
}

}  // namespace tutti::cli
