#include "tools/trace_read.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/flat_call.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::json;

Span span_of(const Json& event) {
  const auto begin = std::llround(event.at("ts").get<double>() * 1000);
  return {begin, begin + std::llround(event.value("dur", 0.0) * 1000)};
}

/// A rank's part in one round over a board.
struct Round {
  std::optional<Span> post;
  std::optional<Span> wait;
  std::optional<Span> take;
  std::uint64_t bytes = 0;
};

class Reader {
 public:
  void read(const Json& event);
  TraceFile finish();

 private:
  using CallKey = std::pair<std::string, std::uint64_t>;  // group and number
  struct Ends {
    CallKey call;
    std::optional<TracedMessage> send, receive;
  };
  void read_call(const Json& event, const Json& args, const CallKey& key);
  void read_message(const Json& event, const Json& args, const CallKey& key);
  void read_board(const Json& event, const Json& args, const CallKey& key);
  void add_round(TracedCall& call, std::uint32_t number, const std::map<int, Round>& ranks) const;

  TraceFile file_;
  std::map<CallKey, TracedCall> calls_;
  std::map<std::tuple<std::string, int, int, std::uint64_t>, Ends> messages_;
  std::map<std::pair<CallKey, int>, std::map<int, Round>> rounds_;
};

void Reader::read(const Json& event) {
  const std::string phase = event.at("ph");
  if (phase != "X" && event.at("name") != "tutti_rank") return;
  const Json& args = event.at("args");
  if (phase != "X") {
    file_.ranks[event.at("pid")] = {args.at("host"), args.at("lost"), args.at("uncertainty_ns"),
                                    args.at("clock_of_rank")};
    return;
  }
  if (!args.contains("operation")) return;
  const CallKey key{args.at("group"), args.at("operation")};
  const std::string category = event.at("cat");
  const std::string name = event.at("name");
  if (category == "call") return read_call(event, args, key);
  if (category == "message") return read_message(event, args, key);
  if (name == "post" || name == "wait" || name == "take" || name == "post and wait")
    return read_board(event, args, key);
  if (category == "step" || category == "copy" || category == "reduction")
    calls_[key].busy[event.at("pid")].push_back(span_of(event));
}

void Reader::read_call(const Json& event, const Json& args, const CallKey& key) {
  TracedCall& call = calls_[key];
  call.name = event.at("name");
  call.operation = key.second;
  call.algorithm = args.at("algorithm");
  call.group = key.first;
  call.bytes = args.at("bytes");
  call.root = args.at("root");
  call.variable = args.at("variable");
  for (int i = 0; i < collective_count; ++i)
    if (args.at("collective") == name_of(static_cast<Collective>(i))) call.collective = static_cast<Collective>(i);
  call.ranks[event.at("pid")] = span_of(event);
}

void Reader::read_message(const Json& event, const Json& args, const CallKey& key) {
  if (args.contains("failed")) return;
  const Span span = span_of(event);
  const bool sends = args.contains("to");
  const int rank = event.at("pid");
  const int from = sends ? rank : args.at("from").get<int>();
  const int to = sends ? args.at("to").get<int>() : rank;
  Ends& ends = messages_[{key.first, from, to, args.at("number")}];
  ends.call = key;
  TracedMessage message{.from = from, .to = to, .bytes = args.at("bytes"), .step = args.at("step")};
  if (sends) {
    message.given = span.begin + args.at("given_ns").get<std::int64_t>();
    ends.send = message;
  } else {
    message.expected = span.begin;
    message.arrived = span.begin + args.at("waited_ns").get<std::int64_t>();
    message.received = span.end;
    ends.receive = message;
  }
}

void Reader::read_board(const Json& event, const Json& args, const CallKey& key) {
  Round& round = rounds_[{key, args.at("step")}][event.at("pid")];
  const Span span = span_of(event);
  const std::string name = event.at("name");
  round.bytes = args.at("bytes");
  if (name == "take") round.take = span;
  if (name == "post") round.post = span;
  if (name == "post and wait") round.post = Span{span.begin, span.begin};
  if (name == "wait" || name == "post and wait") round.wait = span;
}

/// A rank waits for the last one whose contribution it reads.
void Reader::add_round(TracedCall& call, std::uint32_t number, const std::map<int, Round>& ranks) const {
  std::vector<int> members;
  for (const auto& [rank, span] : call.ranks) members.push_back(rank);
  const auto place_of = [&](int rank) {
    return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  };
  for (const auto& [rank, mine] : ranks) {
    if (mine.post) call.busy[rank].push_back(*mine.post);
    if (mine.take) call.busy[rank].push_back(*mine.take);
    if (!mine.wait) continue;
    std::optional<TracedMessage> last;
    for (const auto& [writer, other] : ranks) {
      if (writer == rank || !other.post ||
          !detail::FlatCall::reads(call.collective, call.root, place_of(rank), place_of(writer)))
        continue;
      const TracedMessage& reading =
          call.readings.emplace_back(TracedMessage{.from = writer,
                                                   .to = rank,
                                                   .bytes = other.bytes,
                                                   .step = number,
                                                   .given = other.post->end,
                                                   .expected = mine.wait->begin,
                                                   .arrived = mine.wait->end,
                                                   .received = mine.take ? mine.take->end : mine.wait->end});
      if (!last || reading.given > last->given) last = reading;
    }
    if (last) call.messages.push_back(*last);
  }
}

TraceFile Reader::finish() {
  for (const auto& [key, ends] : messages_) {
    if (!ends.send || !ends.receive) continue;
    TracedMessage message = *ends.receive;
    message.given = ends.send->given;
    message.step = ends.send->step;
    calls_[ends.call].messages.push_back(message);
  }
  for (const auto& [key, ranks] : rounds_)
    if (const auto call = calls_.find(key.first); call != calls_.end())
      add_round(call->second, static_cast<std::uint32_t>(key.second), ranks);
  for (auto& [key, call] : calls_)
    if (!call.ranks.empty()) file_.calls.push_back(std::move(call));
  std::stable_sort(file_.calls.begin(), file_.calls.end(),
                   [](const TracedCall& a, const TracedCall& b) { return a.begin() < b.begin(); });
  return std::move(file_);
}

}  // namespace

std::int64_t TracedCall::begin() const {
  std::int64_t first = ranks.begin()->second.begin;
  for (const auto& [rank, span] : ranks) first = std::min(first, span.begin);
  return first;
}

std::int64_t TracedCall::end() const {
  std::int64_t last = ranks.begin()->second.end;
  for (const auto& [rank, span] : ranks) last = std::max(last, span.end);
  return last;
}

TraceFile read_trace(const std::string& path) {
  std::ifstream file{path};
  if (!file)
    throw Error{ErrorCode::invalid_argument, fmt::format("trace: cannot read {}: {}", path, std::strerror(errno))};
  try {
    const Json json = Json::parse(file);
    Reader reader;
    for (const Json& event : json.at("traceEvents")) reader.read(event);
    return reader.finish();
  } catch (const Json::exception& error) {
    throw Error{ErrorCode::invalid_argument,
                fmt::format("trace: {} is not what `tutti run --trace` writes: {}", path, error.what())};
  }
}

}  // namespace tutti::tools
