#include "lib/startup/rank_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "tutti/error.h"

namespace tutti::detail {
namespace {

constexpr std::string_view head = "tutti rank_info 2\n";

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address.starts_with("[::1]"); }

/// Calls `visit` with the key and value of each field.
template <class AnyRankInfo, class Visit>
void for_each_field(AnyRankInfo& rank_info, const Visit& visit) {
  visit("host", rank_info.host);
  visit("process", rank_info.process);
  visit("quota", rank_info.quota);
  visit("allowed", rank_info.allowed);
  visit("shm", rank_info.shm);
  visit("acceptor", rank_info.acceptor);
  visit("tcp", rank_info.tcp);
  visit("domain", rank_info.domain);
  visit("fingerprint", rank_info.fingerprint);
  visit("encrypted", rank_info.encrypted);
  visit("board_limit", rank_info.board_limit);
  visit("traces", rank_info.traces);
  visit("families", rank_info.families);
}

bool read(std::string_view text, std::string& value) {
  value = text;
  return true;
}

bool read(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

template <class Number>
bool read(std::string_view text, Number& value) {
  const auto [stopped, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && stopped == text.data() + text.size() && value >= 0;
}

/// Takes the line "key=..." from the beginning of `text` and returns the part after the sign.
std::optional<std::string_view> take_line(std::string_view& text, std::string_view key) {
  if (!text.starts_with(key) || !text.substr(key.size()).starts_with('=')) return std::nullopt;
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view value = text.substr(key.size() + 1, end - key.size() - 1);
  text.remove_prefix(end + 1);
  return value;
}

}  // namespace

std::string RankInfo::encode() const {
  std::string text{head};
  for_each_field(*this, [&](std::string_view key, const auto& value) { text += fmt::format("{}={}\n", key, value); });
  return text;
}

RankInfo RankInfo::decode(const std::string& text, int rank) {
  RankInfo rank_info;
  std::string_view rest = text;
  bool good = rest.starts_with(head);
  if (good) rest.remove_prefix(head.size());
  for_each_field(rank_info, [&](std::string_view key, auto& value) {
    const auto line = take_line(rest, key);
    good = good && line && read(*line, value);
  });
  if (good && rest.empty()) return rank_info;
  throw Error{
      ErrorCode::rendezvous,
      fmt::format("rank {} published something that is not of this version of tutti ({} bytes): another program "
                  "or version shares this store under the same job name",
                  rank, text.size()),
      rank};
}

void check_families(const std::vector<RankInfo>& rank_infos) {
  for (const bool v6 : {false, true}) {
    const auto publishes = [v6](const RankInfo& rank_info) {
      return !rank_info.families.empty() && !rank_info.acceptor.empty() && !is_loopback(rank_info.acceptor) &&
             rank_info.acceptor.starts_with('[') == v6;
    };
    const auto lacks = [v6](const RankInfo& rank_info) {
      return !rank_info.families.empty() && rank_info.families.find(v6 ? '6' : '4') == std::string::npos;
    };
    const auto publisher = std::ranges::find_if(rank_infos, publishes);
    const auto lacking = std::ranges::find_if(rank_infos, lacks);
    if (publisher == rank_infos.end() || lacking == rank_infos.end()) continue;
    throw Error{
        ErrorCode::rendezvous,
        fmt::format("rank {0} (host {1}) cannot reach rank {2} (host {3}): rank {2} publishes {4}, an address of "
                    "IPv{5}, and host {1} has addresses of IPv{6} only. Set TUTTI_SOCKET_FAMILY={7} for all "
                    "ranks, or name the interface with TUTTI_SOCKET_IFNAME",
                    lacking - rank_infos.begin(), lacking->host, publisher - rank_infos.begin(), publisher->host,
                    publisher->acceptor, v6 ? 6 : 4, v6 ? 4 : 6, v6 ? "AF_INET" : "AF_INET6"),
        static_cast<int>(lacking - rank_infos.begin())};
  }
}

}  // namespace tutti::detail
