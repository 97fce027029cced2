#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

/// One line of a trace file. (The Python tests check that the file is JSON.)
struct TraceEvent {
  std::string line;

  /// The text after "key":, without quotes.
  std::string text(const std::string& key) const {
    const std::size_t at = line.find("\"" + key + "\":");
    if (at == std::string::npos) return "";
    std::size_t begin = at + key.size() + 3;
    const bool quoted = line[begin] == '"';
    begin += quoted ? 1 : 0;
    return line.substr(begin, line.find_first_of(quoted ? "\"" : ",}", begin) - begin);
  }
  long long number(const std::string& key) const { return std::atoll(text(key).c_str()); }
  /// Nanoseconds of a field in microseconds.
  long long time(const std::string& key) const { return std::llround(std::strtod(text(key).c_str(), nullptr) * 1000); }
  bool is(const std::string& phase) const { return text("ph") == phase; }
};

inline std::vector<TraceEvent> read_trace(const std::string& path) {
  std::vector<TraceEvent> events;
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("{\"name\"")) events.push_back({line});
  return events;
}

/// What is wrong with the slices and arrows of a trace in which nothing failed, or "".
inline std::string trace_trouble(const std::vector<TraceEvent>& events) {
  struct Ends {
    std::vector<const TraceEvent*> sends, receives;
  };
  std::map<std::string, Ends> arrows;
  std::map<std::pair<long long, long long>, std::vector<std::pair<long long, long long>>> slices;  // begin, -end
  for (const TraceEvent& event : events) {
    if (event.is("s")) arrows[event.text("id")].sends.push_back(&event);
    if (event.is("f")) arrows[event.text("id")].receives.push_back(&event);
    if (event.is("X"))
      slices[{event.number("pid"), event.number("tid")}].emplace_back(event.time("ts"),
                                                                      -event.time("ts") - event.time("dur"));
  }
  for (const auto& [id, ends] : arrows) {
    if (ends.sends.size() != 1 || ends.receives.size() != 1)
      return id + ": " + std::to_string(ends.sends.size()) + " sends, " + std::to_string(ends.receives.size()) +
             " receives, e.g. " + (ends.sends.empty() ? ends.receives : ends.sends).front()->line;
    const TraceEvent& send = *ends.sends.front();
    const TraceEvent& receive = *ends.receives.front();
    if (send.text("bytes") != receive.text("received")) return "its ends differ: " + send.line + receive.line;
    if (send.number("pid") != send.number("from") || receive.number("pid") != send.number("to"))
      return "it ends elsewhere: " + send.line + receive.line;
    if (receive.time("ts") < send.time("ts")) return "it goes back in time: " + send.line + receive.line;
    for (const TraceEvent* end : {&send, &receive}) {
      const auto& thread = slices[{end->number("pid"), end->number("tid")}];
      const auto lies_in = [&](const auto& slice) {
        return slice.first <= end->time("ts") && end->time("ts") < -slice.second;
      };
      if (std::none_of(thread.begin(), thread.end(), lies_in)) return "it hangs in the air: " + end->line;
    }
  }
  for (auto& [thread, all] : slices) {
    std::sort(all.begin(), all.end());
    std::vector<long long> open;  // ends of the slices that enclose this one
    for (const auto& [begin, minus_end] : all) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      if (!open.empty() && -minus_end > open.back())
        return "slices overlap on thread " + std::to_string(thread.second) + " of rank " + std::to_string(thread.first);
      open.push_back(-minus_end);
    }
  }
  return "";
}

}  // namespace tutti::testing
