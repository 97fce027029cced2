#include "lib/observe/trace/chrome_trace_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

namespace tutti::trace {
namespace {

constexpr std::uint64_t lanes_per_track = 100;
constexpr std::array track_names{
    "calls", "board", "work", "stream", "to rank {}", "from rank {}", "message to rank {}", "message from rank {}"};

std::uint64_t number_of(ChromeTraceBuilder::Track track, int peer) {
  const auto kind = static_cast<std::uint64_t>(track);
  return kind <= static_cast<std::uint64_t>(ChromeTraceBuilder::Track::stream)
             ? kind
             : 8 * (static_cast<std::uint64_t>(std::max(peer, 0)) + 1) + kind;
}

std::string name_of_track(std::uint64_t track) {
  const auto kind = static_cast<std::size_t>(track % 8);
  return fmt::format(fmt::runtime(track_names[kind]), static_cast<std::int64_t>(track / 8) - 1);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return result;
}

std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", std::abs(nanoseconds) / 1000,
                     std::abs(nanoseconds) % 1000);
}

std::size_t ChromeTraceBuilder::slice(Track track, int peer, std::int64_t begin, std::int64_t end,
                                      std::string_view category, std::string name, std::string args) {
  slices_.push_back({.track = number_of(track, peer),
                     .begin = begin,
                     .end = std::max(end, begin + 1),
                     .category = category,
                     .name = std::move(name),
                     .args = std::move(args),
                     .inner_name = {}});
  return slices_.size() - 1;
}

void ChromeTraceBuilder::inner(std::int64_t end, std::string name) {
  Slice& slice = slices_.back();
  slice.inner_end = std::min(end, slice.end);
  slice.inner_name = std::move(name);
}

void ChromeTraceBuilder::within(std::size_t outer) {
  Slice& slice = slices_.back();
  slice.outer = outer;
  slice.end = std::min(slice.end, slices_[outer].end);
  slice.begin = std::min(slice.begin, slice.end - 1);
}

void ChromeTraceBuilder::arrow(std::size_t slice, const Arrow& arrow) { arrows_.push_back({slice, arrow}); }

/// The first thread of its track that is free, for each slice.
void ChromeTraceBuilder::place() {
  std::vector<std::size_t> order(slices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t one, std::size_t other) {
    return std::pair{slices_[one].track, slices_[one].begin} < std::pair{slices_[other].track, slices_[other].begin};
  });
  std::vector<std::int64_t> free_from;  // by lane
  std::uint64_t track = ~std::uint64_t{0};
  for (const std::size_t index : order) {
    Slice& slice = slices_[index];
    if (slice.outer) continue;
    if (slice.track != track) free_from.clear();
    track = slice.track;
    auto lane =
        std::find_if(free_from.begin(), free_from.end(), [&](std::int64_t from) { return from <= slice.begin; });
    if (lane == free_from.end()) lane = free_from.insert(lane, 0);
    *lane = slice.end;
    slice.thread = thread_of_calls + track * lanes_per_track +
                   static_cast<std::uint64_t>(lane - free_from.begin()) % lanes_per_track;
  }
  for (Slice& slice : slices_)
    if (slice.outer) slice.thread = slices_[*slice.outer].thread;
}

void ChromeTraceBuilder::write(const std::function<void(std::string_view)>& put) {
  place();
  write_threads(put);
  for (const Slice& slice : slices_) write_slice(slice, put);
  for (const Placed& placed : arrows_) write_arrow(placed, put);
}

void ChromeTraceBuilder::write_threads(const std::function<void(std::string_view)>& put) const {
  std::map<std::uint64_t, std::uint64_t> tracks;  // by thread
  for (const Slice& slice : slices_) tracks.emplace(slice.thread, slice.track);
  for (const auto& [thread, track] : tracks) {
    const std::uint64_t lane = (thread - thread_of_calls) % lanes_per_track;
    put(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}{}"}}}})", rank_, thread,
                    name_of_track(track), lane == 0 ? "" : fmt::format(" ({})", lane + 1)));
    put(fmt::format(R"({{"name":"thread_sort_index","ph":"M","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", rank_,
                    thread, thread));
  }
}

void ChromeTraceBuilder::write_slice(const Slice& slice, const std::function<void(std::string_view)>& put) const {
  const auto one = [&](std::string_view category, std::string_view name, std::int64_t end, std::string_view args) {
    put(fmt::format(R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})", name,
                    category, rank_, slice.thread, microseconds(slice.begin), microseconds(end - slice.begin), args));
  };
  one(slice.category, slice.name, slice.end, slice.args);
  if (slice.inner_end > slice.begin) one("wait", slice.inner_name, slice.inner_end, slice.args);
}

/// Viewers look for the slice that contains the arrow's end, and complain if both ends give the same field.
void ChromeTraceBuilder::write_arrow(const Placed& placed, const std::function<void(std::string_view)>& put) const {
  const Slice& slice = slices_[placed.slice];
  const Arrow& arrow = placed.arrow;
  const std::string args = arrow.begins
                               ? fmt::format(R"("from":{},"to":{},"bytes":{})", arrow.from, arrow.to, arrow.bytes)
                               : fmt::format(R"("received":{})", arrow.bytes);
  put(fmt::format(R"({{"name":"message","cat":"flow","ph":"{}","bp":"e","id":{},"pid":{},"tid":{},"ts":{},)"
                  R"("args":{{{}}}}})",
                  arrow.begins ? "s" : "f", arrow.id, rank_, slice.thread,
                  microseconds(std::clamp(arrow.at, slice.begin, slice.end - 1)), args));
}

}  // namespace tutti::trace
