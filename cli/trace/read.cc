#include "cli/trace/read.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "cli/base/input_file.h"
#include "cli/trace/board_rounds.h"
#include "lib/base/collective_traits.h"
#include "lib/observe/trace/file.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using Json = nlohmann::json;

/// The error in an event.
struct Flaw {
  std::string text;
};

/// Lists and objects may be nested so deeply that nothing that calls itself for each level can print or copy them.
std::string text_of(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40);
}

/// The JSON library would truncate a number that does not fit.
template <class T>
bool fits(const Json& value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                      : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  else
    return true;
}

/// A field that must exist.
const Json& required(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) throw Flaw{fmt::format("has no \"{}\"", field)};
  return *found;
}

/// The same, if it has that type.
template <class T>
T get(const Json& object, const char* field) {
  const Json& found = required(object, field);
  try {
    if (fits<T>(found)) return found.get<T>();
  } catch (const Json::exception&) {  // it has another type
  }
  throw Flaw{fmt::format("cannot have {} as its \"{}\"", text_of(found), field)};
}

/// Sums of a few such nanoseconds fit into 64 bits. Times count from the start of the machine; this is nine years.
constexpr double longest = 3e17;

void check_time(const Json& object, const char* field, double nanoseconds) {
  if (!(std::abs(nanoseconds) <= longest))
    throw Flaw{
        fmt::format("cannot have {} as its \"{}\": that is more than nine years", text_of(object[field]), field)};
}

std::int64_t get_microseconds(const Json& event, const char* field) {
  const double time = get<double>(event, field) * 1000;
  check_time(event, field, time);
  return std::llround(time);
}

std::int64_t get_nanoseconds(const Json& args, const char* field) {
  const auto time = get<std::int64_t>(args, field);
  check_time(args, field, static_cast<double>(time));
  return time;
}

/// A rank of a group of that size.
void check_rank(const Json& args, const char* field, int size) {
  const int rank = get<int>(args, field);
  if (rank < 0 || rank >= size)
    throw Flaw{fmt::format("cannot have {} as its \"{}\" among {} ranks", rank, field, size)};
}

Span span_of(const Json& event) {
  const std::int64_t begin = get_microseconds(event, "ts");
  const std::int64_t duration = event.contains("dur") ? get_microseconds(event, "dur") : 0;
  if (duration < 0) throw Flaw{fmt::format("cannot have {} as its \"dur\": it is negative", text_of(event["dur"]))};
  return {begin, begin + duration};
}

Collective collective_named(const std::string& name) {
  for (int i = 0; i < collective_count; ++i)
    if (name == name_of(static_cast<Collective>(i))) return static_cast<Collective>(i);
  throw Flaw{fmt::format("cannot have {} as its \"collective\"", name)};
}

/// The group of calls of communicators for which the trace of their rank had no room. Numbers of several stand there.
constexpr std::string_view no_name = "0";

class Reader {
 public:
  void read(const Json& event);
  TraceFile finish();

 private:
  using CallKey = BoardRounds::CallKey;
  enum class Way : std::uint8_t { link, stream, credit };  // each has numbers of its own
  struct Ends {
    CallKey call;
    std::optional<TracedMessage> send, receive;
  };
  void read_call(const Json& event, const Json& args, const CallKey& key);
  void read_message(const Json& event, const Json& args, const CallKey& key);
  void read_board(const Json& event, const Json& args, const CallKey& key);
  void read_arrow(const Json& event, bool begins);
  void add_absences();

  TraceFile file_;
  std::map<CallKey, TracedCall> calls_;
  std::map<std::tuple<std::string, Way, int, int, std::uint64_t>, Ends> messages_;
  BoardRounds board_;
  std::map<int, std::vector<Span>> away_;  // by rank
};

void Reader::read(const Json& event) {
  const auto phase = get<std::string>(event, "ph");
  const auto name = get<std::string>(event, "name");
  if ((phase == "s" || phase == "f") && event.contains("cat") && event["cat"] == "flow")
    return read_arrow(event, phase == "s");
  if (phase != "X" && name != "tutti_rank") return;
  const Json& args = required(event, "args");
  if (phase != "X") {
    TracedRank& rank = file_.ranks[get<int>(event, "pid")];  // it writes more than once if it fails, or joins again
    rank = {get<std::string>(args, "host"), rank.lost + get<std::uint64_t>(args, "lost"),
            get<std::int64_t>(args, "uncertainty_ns"), get<int>(args, "clock_of_rank")};
    return;
  }
  if (name == "away") away_[get<int>(event, "pid")].push_back(span_of(event));
  if (!args.contains("operation")) return;
  const CallKey key{get<std::string>(args, "group"), get<std::uint64_t>(args, "operation")};
  const auto category = get<std::string>(event, "cat");
  if (key.first == no_name) {
    if (category == "call") ++file_.unnamed;
    return;
  }
  if (category == "call") return read_call(event, args, key);
  if (category == "message") return read_message(event, args, key);
  if (category == "left out") calls_[key].is_complete = false;
  if (BoardRounds::has_slices_named(name)) return read_board(event, args, key);
  if (category == "step" || category == "copy" || category == "reduction")
    calls_[key].busy[get<int>(event, "pid")].push_back(span_of(event));
}

void put(int rank, bool is_in, std::set<int>& ranks) {
  if (is_in)
    ranks.insert(rank);
  else
    ranks.erase(rank);
}

void Reader::read_call(const Json& event, const Json& args, const CallKey& key) {
  TracedCall& call = calls_[key];
  call.name = get<std::string>(event, "name");
  call.operation = key.second;
  call.algorithm = get<std::string>(args, "algorithm");
  call.group = key.first;
  call.bytes = get<std::uint64_t>(args, "bytes");
  call.size = get<int>(args, "ranks");
  call.root = get<int>(args, "root");
  call.variable = get<bool>(args, "variable");
  call.collective = collective_named(get<std::string>(args, "collective"));
  const int rank = get<int>(event, "pid");
  call.ranks[rank] = span_of(event);
  put(rank, args.contains("failed"), call.failed);
  put(rank, args.contains("unfinished"), call.unfinished);  // a rank that goes on after a failure may write it again
  check_rank(args, "place", call.size);
  if (detail::is_rooted(call.collective)) check_rank(args, "root", call.size);
  call.places[rank] = get<int>(args, "place");
  const auto count = get<std::uint64_t>(args, "count");
  call.element = count == 0 ? 0 : call.bytes / count;
}

void Reader::read_message(const Json& event, const Json& args, const CallKey& key) {
  if (args.contains("failed")) return;
  const Span span = span_of(event);
  const bool sends = args.contains("to");
  const int rank = get<int>(event, "pid");
  const int from = sends ? rank : get<int>(args, "from");
  const int to = sends ? get<int>(args, "to") : rank;
  const Way way = args.contains("credit") ? Way::credit : args.contains("on_stream") ? Way::stream : Way::link;
  Ends& ends = messages_[{key.first, way, from, to, get<std::uint64_t>(args, "number")}];
  ends.call = key;
  const bool has_step = way == Way::link || args.contains("step");
  TracedMessage message{.from = from,
                        .to = to,
                        .bytes = get<std::uint64_t>(args, "bytes"),
                        .step = has_step ? get<std::uint32_t>(args, "step") : 0};
  if (sends) {
    message.given = span.begin + get_nanoseconds(args, "given_ns");
    message.sent = span.end;
    if (way == Way::stream) message.blocked = {span.begin, message.given};
    ends.send = message;
  } else {
    message.expected = span.begin;
    message.arrived = span.begin + get_nanoseconds(args, "waited_ns");
    message.received = span.end;
    ends.receive = message;
  }
}

/// The thread of the event.
BoardRounds::Thread thread_of(const Json& event) { return {get<int>(event, "pid"), get<std::uint64_t>(event, "tid")}; }

void Reader::read_board(const Json& event, const Json& args, const CallKey& key) {
  board_.add({.thread = thread_of(event),
              .call = key,
              .round = get<std::uint32_t>(args, "step"),
              .name = get<std::string>(event, "name"),
              .span = span_of(event),
              .bytes = get<std::uint64_t>(args, "bytes")});
}

void Reader::read_arrow(const Json& event, bool begins) {
  board_.add({.id = get<std::uint64_t>(event, "id"),
              .begins = begins,
              .thread = thread_of(event),
              .at = get_microseconds(event, "ts")});
}

/// An absence delayed everything that its rank had begun.
void Reader::add_absences() {
  for (auto& [rank, absences] : away_) absences = apart(std::move(absences));  // of the threads of two communicators
  for (auto& [key, call] : calls_)
    for (const auto& [rank, part] : call.ranks) {
      const std::vector<Span>& absences = away_[rank];
      auto absence = std::lower_bound(absences.begin(), absences.end(), part.begin,
                                      [](const Span& one, std::int64_t time) { return one.end <= time; });
      for (; absence != absences.end() && absence->begin < part.end; ++absence) call.away[rank].push_back(*absence);
    }
}

TraceFile Reader::finish() {
  for (const auto& [key, ends] : messages_) {
    if (!ends.send || !ends.receive) continue;
    TracedMessage message = *ends.receive;
    message.given = ends.send->given;
    message.sent = ends.send->sent;
    message.blocked = ends.send->blocked;
    message.step = ends.send->step;
    calls_[ends.call].messages.push_back(message);
  }
  board_.put_into(calls_);
  add_absences();
  for (auto& [key, call] : calls_)
    if (!call.ranks.empty())
      (call.failed.empty() && call.unfinished.empty() ? file_.calls : file_.failed).push_back(std::move(call));
  for (auto* const calls : {&file_.calls, &file_.failed})
    std::stable_sort(calls->begin(), calls->end(),
                     [](const TracedCall& a, const TracedCall& b) { return a.begin() < b.begin(); });
  return std::move(file_);
}

constexpr const char* writer = "tutti";
constexpr const char* remedy = "`tutti run --trace FILE` writes one";

/// The file, and its reader for error messages.
struct Source {
  std::string_view who;
  const std::string& path;
};

[[noreturn]] void wrong(const Source& source, const std::string& what) {
  throw Error{ErrorCode::invalid_argument, fmt::format("{}: cannot read {}: {}", source.who, source.path, what)};
}

/// A file that begins in our format but does not end in it was truncated.
Json parsed(const Source& source) {
  const std::string text = read_input(source.who, source.path, remedy);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    if (text.substr(0, 200).find("traceEvents") == std::string::npos)
      wrong(source, fmt::format("it is not JSON; {}", remedy));
    wrong(source, fmt::format("it is cut off or damaged at byte {} of {}; if it was copied, copy it again",
                              std::min(error.byte, text.size()), text.size()));
  } catch (const Json::out_of_range&) {
    wrong(source, "a number in it is too large for anything; another program changed it");
  }
}

/// Programs that edit traces may drop the version; then the events must do.
void check_format(const Source& source, const Json& about) {
  const auto format = about.find("format");
  if (format != about.end() && *format != trace::file_format)
    wrong(source, fmt::format("it is a trace in format {}, and this tutti reads format {}; let this tutti write one",
                              text_of(*format), trace::file_format));
}

}  // namespace

std::vector<int> TracedCall::members() const {
  if (static_cast<std::size_t>(size) != places.size()) return {};
  std::map<int, int> by_place;
  for (const auto& [rank, place] : places) by_place[place] = rank;
  std::vector<int> members;
  for (const auto& [place, rank] : by_place) members.push_back(rank);
  return members.size() == places.size() ? members : std::vector<int>{};
}

std::vector<Span> apart(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<Span> joined;
  for (const Span& span : spans) {
    if (!joined.empty() && span.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, span.end);
    else
      joined.push_back(span);
  }
  return joined;
}

TraceFile read_trace(std::string_view who, const std::string& path) {
  const Source source{who, path};
  const Json json = parsed(source);
  const auto events = json.find("traceEvents");
  if (events == json.end() || !events->is_array())
    wrong(source, fmt::format("it is JSON, but no trace: it has no \"traceEvents\"; {}", remedy));
  const auto is_of_rank = [](const Json& event) {
    return event.is_object() && event.contains("name") && event["name"] == "tutti_rank";
  };
  const auto about = json.find("otherData");
  const bool ours = about != json.end() && about->contains("writer") && (*about)["writer"] == writer;
  if (!ours && std::none_of(events->begin(), events->end(), is_of_rank))
    wrong(source, fmt::format("it is the trace of something else: no rank of tutti is in it; {}", remedy));
  if (ours) check_format(source, *about);
  Reader reader;
  for (std::size_t i = 0; i < events->size(); ++i) try {
      reader.read((*events)[i]);
    } catch (const Flaw& flaw) {
      wrong(source,
            fmt::format("event {} of its {} {}; another version of tutti wrote it, or another program changed it",
                        i + 1, events->size(), flaw.text));
    }
  return reader.finish();
}

}  // namespace tutti::cli
