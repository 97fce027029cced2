#include "lib/base/environment.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <vector>

#include "lib/base/service_links.h"
#include "lib/base/suggest.h"
#include "lib/base/words.h"

namespace tutti {
namespace {

using Kind = Variable::Kind;

constexpr std::array<std::string_view, 1> or_auto{"auto"};
constexpr std::array<std::string_view, 2> families{"AF_INET", "AF_INET6"};
constexpr std::array<std::string_view, 4> instruction_sets{"generic", "avx2", "avx512", "avx512fp16"};
constexpr std::array<std::string_view, 3> store_kinds{"auto", "plain", "streaming"};
constexpr std::array<std::string_view, 3> single_copies{"auto", "off", "on"};
constexpr std::array<std::string_view, 7> gpu_modes{"auto",     "staged",   "streams", "leader",
                                                    "one-shot", "two-shot", "kernel"};
constexpr std::array<std::string_view, 4> log_levels{"VERSION", "WARN", "INFO", "TRACE"};

constexpr std::uint64_t most_int = std::numeric_limits<int>::max();
constexpr std::uint64_t most_seconds = 1'000'000'000;

// Readers take the words by their order.
constexpr std::array table{
    Variable{.name = "TUTTI_RANK",
             .kind = Kind::number,
             .values = "a number",
             .fallback = "the launcher's",
             .meaning = "Rank of this process, from 0.",
             .most = most_int},
    Variable{.name = "TUTTI_SIZE",
             .kind = Kind::number,
             .values = "a number",
             .fallback = "the launcher's",
             .meaning = "Number of processes of the job.",
             .least = 1,
             .most = most_int},
    Variable{.name = "TUTTI_LOCAL_RANK",
             .kind = Kind::number,
             .values = "a number",
             .fallback = "the launcher's",
             .meaning = "Number of this process among those of its host, from 0.",
             .most = most_int},
    Variable{.name = "TUTTI_LOCAL_SIZE",
             .kind = Kind::number,
             .values = "a number",
             .fallback = "the launcher's",
             .meaning = "Number of processes on this host.",
             .least = 1,
             .most = most_int},
    Variable{.name = "TUTTI_RDZV",
             .values = "tcp://host:port (rank 0 serves) | store://host:port (served already) | file:///path | env://",
             .fallback = "the launcher's, or MASTER_ADDR and MASTER_PORT",
             .meaning = "Where the ranks meet."},
    Variable{
        .name = "TUTTI_JOB", .values = "any word", .fallback = "none", .meaning = "Separates jobs that share a store."},
    Variable{
        .name = "TUTTI_SECRET",
        .values = "16 to 4096 characters, the same for all ranks",
        .fallback = "made by `tutti run` on one node; else none",
        .meaning = "The job's secret: processes that do not know it cannot join, read its store or reach its ranks.",
        .is_secret = true},
    Variable{.name = "TUTTI_SECRET_FILE",
             .values = "path of a file that others may not read",
             .fallback = "none",
             .meaning = "The same, from a file."},
    Variable{.name = "TUTTI_INSECURE",
             .kind = Kind::flag,
             .fallback = "0",
             .meaning = "1: a store without a secret may be reachable from other hosts."},
    Variable{
        .name = "TUTTI_TLS",
        .kind = Kind::flag,
        .fallback = "0",
        .meaning =
            "1, for all ranks: everything that goes over TCP, to the store and between ranks, is encrypted, except a "
            "store of another program, such as torchrun's. Needs a secret."},
    Variable{.name = "TUTTI_TIMEOUT",
             .kind = Kind::seconds,
             .fallback = "300",
             .meaning = "Deadline of set-up and of each operation. A process group of PyTorch has its own instead.",
             .least = 1,
             .most = most_seconds * 1000},
    Variable{.name = "TUTTI_LOST_AFTER",
             .kind = Kind::seconds,
             .fallback = "10",
             .meaning = "Silence after which a rank counts as lost; one whose process ends is noticed at once.",
             .least = 1000,
             .most = most_seconds * 1000},
    Variable{.name = "TUTTI_TRANSPORT",
             .values = "list of shm, tcp; ^ before it excludes: ^shm",
             .fallback = "shm,tcp",
             .meaning = "Transports that ranks may use."},
    Variable{.name = "TUTTI_ALGO",
             .values = "an algorithm, or collective:algorithm;...  e.g. ring, or all_reduce:ring;broadcast:tree",
             .fallback = "the tuning table's choice",
             .meaning = "Algorithm of calls that name none; one without a collective is for calls that it can serve."},
    Variable{.name = "TUTTI_TUNING_FILE",
             .values = "path of a tuning table",
             .fallback = "the built-in table",
             .meaning = "Tuning table that chooses the algorithms."},
    Variable{.name = "TUTTI_PLAN_FILE",
             .values = "path of a file that `tutti plan --save` wrote",
             .fallback = "none",
             .meaning = "A plan of your own, used before TUTTI_ALGO by calls that it fits and that name no algorithm."},
    Variable{.name = "TUTTI_PYTHON",
             .values = "path of a program",
             .fallback = "python3, for modules and scripts that are not executable",
             .meaning = "Starts the scripts (*.py) and modules (-m) of `tutti run`."},
    Variable{.name = "TUTTI_SOCKET_IFNAME",
             .values = "list of prefixes; = before it for exact names; ^ before it excludes",
             .fallback = "NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, or the route to the rendezvous",
             .meaning = "Network interfaces over which peers reach this process: the one with the route to the "
                        "rendezvous, and with TUTTI_TCP_CONNECTIONS the others, too."},
    Variable{.name = "TUTTI_SOCKET_FAMILY",
             .kind = Kind::word,
             .fallback = "either",
             .meaning = "Address family that peers are given.",
             .words = families},
    Variable{.name = "TUTTI_ISA",
             .kind = Kind::word,
             .fallback = "the best this processor has",
             .meaning = "Instructions used to reduce.",
             .words = instruction_sets},
    Variable{.name = "TUTTI_DETERMINISTIC",
             .kind = Kind::flag,
             .fallback = "0",
             .meaning = "1: results are the left fold in rank order, whatever the algorithm."},
    Variable{
        .name = "TUTTI_CHECKSUM",
        .kind = Kind::flag,
        .fallback = "0",
        .meaning =
            "1: every message carries a CRC-32C of its payload, which its receiver verifies. All data then travel in "
            "messages: there are no boards, allocate() shares nothing, and the engine does all sends and receives."},
    Variable{.name = "TUTTI_CONGESTION",
             .values = "a name from /proc/sys/net/ipv4/tcp_allowed_congestion_control",
             .fallback = "the system's; within a machine cubic or reno",
             .meaning = "TCP congestion control of connections between ranks."},
    Variable{.name = "TUTTI_TCP_CONNECTIONS",
             .kind = Kind::number,
             .values = "a number",
             .fallback = "1",
             .meaning =
                 "TCP connections over which a link between two ranks is striped, for networks where one does not "
                 "reach the rate of the link. They go over all interfaces that TUTTI_SOCKET_IFNAME names, in turn.",
             .least = 1,
             .most = 16},
    Variable{.name = "TUTTI_TOPOLOGY",
             .values = "path of a file with lines such as: rank 0-3 cache a node 0, or core 0-7 cache a",
             .fallback = "what the system says",
             .meaning = "Says which ranks, or cores, share a last-level cache and a NUMA node. For tests."},
    Variable{.name = "TUTTI_SPIN",
             .kind = Kind::number,
             .values = "tries",
             .fallback = "auto",
             .meaning = "Polls before a waiting rank yields the core; auto: 200, or 0 if ranks outnumber cores.",
             .words = or_auto,
             .most = most_int},
    Variable{.name = "TUTTI_BOARD_BYTES",
             .kind = Kind::number,
             .values = "bytes",
             .fallback = "no limit",
             .meaning = "Largest contribution of a rank to a collective over a board (memory that all its ranks map). "
                        "0: no boards, and allocate() shares nothing."},
    Variable{.name = "TUTTI_MESSAGES_AT_ONCE",
             .kind = Kind::flag,
             .fallback = "1",
             .meaning = "0: the engine does all messages and collectives over links, even those that need not wait."},
    Variable{.name = "TUTTI_COPY_STORES",
             .kind = Kind::word,
             .fallback = "auto",
             .meaning = "How payloads are written to shared memory; auto: past the caches if plain stores are slow.",
             .words = store_kinds},
    Variable{.name = "TUTTI_SINGLE_COPY",
             .kind = Kind::word,
             .fallback = "auto",
             .meaning =
                 "Whether messages of collectives and sendrecv from 16 KiB on, and others above 256 KiB, are read "
                 "directly from the sender's memory; auto: if that is faster.",
             .words = single_copies},
    Variable{
        .name = "TUTTI_GPU_MODE",
        .kind = Kind::word,
        .fallback = "auto",
        .meaning =
            "How collectives on device memory run: staged by pinned memory of the host; on the GPUs' streams, over "
            "links of device memory; or in the memory of other ranks. There one rank's kernels serve all that share "
            "its GPU (leader), or each rank has its own (one-shot; in two-shot each sums a part of an all_reduce). "
            "In kernel these kernels also wait for each other, which takes a GPU for each rank, and which only this "
            "setting does. auto chooses by GPUs, sizes and where the buffers lie.",
        .words = gpu_modes},
    Variable{.name = "TUTTI_GPU_SLOT_BYTES",
             .kind = Kind::number,
             .values = "bytes",
             .fallback = "1048576",
             .meaning =
                 "Size of a slot of the links between GPUs; longer messages go in rounds. Each rank has two slots "
                 "per rank of a communicator, and where ranks use each other's memory eight more for copies of "
                 "buffers. Rank 0's value holds for all.",
             .least = 4096,
             .most = std::uint64_t{1} << 30},
    Variable{.name = "TUTTI_INJECT",
             .values = "FAULT:key=value,...;...  e.g. kill:rank=2,op=5,step=3, or refuse:call=memfd,errno=EMFILE",
             .fallback = "none",
             .meaning = "Faults to inject, to test how the program and the other ranks react."},
    Variable{
        .name = "TUTTI_BLACK_BOX",
        .values = "a path with %r, the rank | off",
        .fallback = "memory that `tutti blackbox PID` finds",
        .meaning = "Where the last operations of each rank are recorded; a file remains after the rank has ended."},
    Variable{.name = "TUTTI_BLACK_BOX_FD",
             .kind = Kind::descriptor,
             .fallback = "none",
             .meaning = "Set by `tutti run` for its ranks: memory for their last operations.",
             .most = most_int},
    Variable{.name = "TUTTI_TRACE_FILE",
             .values = "a path",
             .fallback = "none",
             .meaning = "File for every step, wait and message of all ranks, for Perfetto and `tutti trace`."},
    Variable{
        .name = "TUTTI_TRACE_RECORDS",
        .kind = Kind::number,
        .values = "a number",
        .fallback = "65536",
        .meaning = "Number of records of 64 bytes that a rank keeps for its trace; later ones overwrite the oldest.",
        .least = 16,
        .most = std::uint64_t{1} << 26},
    Variable{.name = "TUTTI_TRACE_FD",
             .kind = Kind::descriptor,
             .fallback = "none",
             .meaning = "Set by `tutti run` for its ranks: memory for their traces.",
             .most = most_int},
    Variable{.name = "TUTTI_DEBUG",
             .kind = Kind::word,
             .fallback = "warnings, without a prefix",
             .meaning = "How much ranks log.",
             .words = log_levels},
    Variable{.name = "TUTTI_DEBUG_SUBSYS",
             .values = "list of INIT, NET, SHM, STORE, COLL, P2P, ALGO, TUNE, ENV, ALL; ^ before it excludes",
             .fallback = "INIT,NET,SHM,STORE,ENV",
             .meaning = "Parts that are logged; COLL and P2P log every operation at TRACE."},
    Variable{.name = "TUTTI_DEBUG_FILE",
             .values = "a path with %h host, %p pid, %r rank, %% a percent sign",
             .fallback = "stderr",
             .meaning = "File of the log."},
    Variable{.name = "TUTTI_TESTS_MIN_BW",
             .values = "GB/s",
             .fallback = "NCCL_TESTS_MIN_BW, or none",
             .meaning = "`tutti bench` fails if the average bus bandwidth is lower than 0.9 times this."},
};

const Variable& row_of(std::string_view name) {
  const auto* const row = std::ranges::find(table, name, &Variable::name);
  assert(row != table.end());
  return *row;
}

std::optional<std::size_t> find_word(const Variable& row, std::string_view value) {
  for (std::size_t i = 0; i < row.words.size(); ++i)
    if (is_same_word(row.words[i], value)) return i;
  return std::nullopt;
}

/// strtod() depends on the program's locale, in which 0.5 may be written 0,5.
template <class Number>
Number parse(std::string_view name, std::string_view text, std::string_view if_none) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return number;
  throw environment::wrong(name, text, error == std::errc::result_out_of_range ? "out of range" : if_none);
}

std::string range_of(const Variable& row, std::uint64_t unit) {
  std::string text = row.least >= unit || row.kind == Kind::number ? " from " + std::to_string(row.least / unit) : "";
  if (row.most < ~std::uint64_t{0} && row.most != most_int && row.kind == Kind::number)
    text += " to " + std::to_string(row.most);
  return text;
}

}  // namespace

std::span<const Variable> variables() { return table; }

std::string accepted_by(const Variable& variable) {
  std::string text;
  switch (variable.kind) {
    case Kind::text:
      return std::string{variable.values};
    case Kind::flag:
      return "0 | 1";
    case Kind::descriptor:
      return "a descriptor";
    case Kind::seconds:
      return "seconds" + range_of(variable, 1000) + ", e.g. 30 or 2.5";
    case Kind::number:
      text = std::string{variable.values} + range_of(variable, 1);
      break;
    case Kind::word:
      break;
  }
  for (const std::string_view word : variable.words) text += (text.empty() ? "" : " | ") + std::string{word};
  return text;
}

void check_environment(const char* const* environ) {
  constexpr std::string_view ours = "TUTTI_";
  std::vector<std::string_view> known;
  for (const Variable& variable : table) known.push_back(variable.name);
  for (; *environ != nullptr; ++environ) {
    const std::string_view entry = *environ;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(ours)) continue;
    const std::string_view value = entry.substr(std::min(name.size() + 1, entry.size()));
    if (is_service_link(name, value)) continue;
    if (std::ranges::find(known, name) == known.end())
      throw Error{ErrorCode::invalid_argument,
                  "unknown environment variable " + std::string{name} + "." + did_you_mean(name, known) +
                      " `tutti doctor --env` lists all; unset what is not meant for tutti."};
  }
}

std::optional<std::string> variable(std::string_view name) {
  const char* value = std::getenv(std::string{name}.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

namespace environment {

Error wrong_as(std::string_view called, std::string_view name, std::string_view value, std::string_view why,
               std::string_view remedy) {
  std::string text{called};
  text.append(" is \"").append(value).append("\": ").append(why);
  text.append(", accepted: ").append(accepted_by(row_of(name))).append(".");
  if (!remedy.empty()) text.append(remedy.front() == ' ' ? "" : " ").append(remedy);
  return Error{ErrorCode::invalid_argument, text};
}

bool is_on(std::string_view name) {
  const auto value = variable(name);
  if (!value) return row_of(name).fallback == "1";
  if (value != "0" && value != "1") throw wrong(name, *value, "not a switch");
  return value == "1";
}

std::uint64_t number_in(std::string_view name, const std::string& value) {
  const Variable& row = row_of(name);
  const auto number = parse<std::uint64_t>(name, value, "not a number");
  if (number < row.least || number > row.most) throw wrong(name, value, "out of range");
  return number;
}

std::optional<std::uint64_t> number(std::string_view name) {
  const auto value = variable(name);
  if (!value || find_word(row_of(name), *value)) return std::nullopt;
  return number_in(name, *value);
}

std::optional<std::chrono::milliseconds> seconds(std::string_view name) {
  const auto value = variable(name);
  if (!value) return std::nullopt;
  const Variable& row = row_of(name);
  const auto number = parse<double>(name, *value, "not a positive number");
  if (!(number > 0)) throw wrong(name, *value, "not a positive number");
  const double length = std::max(1.0, std::round(number * 1000));
  if (length < static_cast<double>(row.least) || length > static_cast<double>(row.most))
    throw wrong(name, *value, "out of range");
  return std::chrono::milliseconds{static_cast<std::int64_t>(length)};
}

std::size_t word_in(std::string_view name, const std::string& value) {
  const Variable& row = row_of(name);
  if (const auto found = find_word(row, value)) return *found;
  throw wrong(name, value, "not one of these", did_you_mean(value, row.words));
}

std::optional<std::size_t> word(std::string_view name) {
  const auto value = variable(name);
  return value ? std::optional{word_in(name, *value)} : std::nullopt;
}

int descriptor(std::string_view name) {
  const auto value = variable(name);
  return value && *value != "-1" ? static_cast<int>(number_in(name, *value)) : -1;
}

}  // namespace environment
}  // namespace tutti
