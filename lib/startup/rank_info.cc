#include "lib/startup/rank_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "lib/base/net/address.h"
#include "tutti/error.h"

namespace tutti::detail {
namespace {

template <class Published>
constexpr std::string_view head;
template <>
constexpr std::string_view head<RankInfo> = "tutti rank_info 5\n";
template <>
constexpr std::string_view head<RankAccess> = "tutti rank_access 2\n";

// Call `visit` with the key and value of each field; with `Published` const or not.

template <class Published, class Visit>
requires std::same_as<std::remove_const_t<Published>, RankAccess>
void for_each_published(Published& access, const Visit& visit) {
  visit("shm_trouble", access.shm_trouble);
  visit("acceptor", access.acceptor);
  visit("tcp", access.tcp);
}

template <class Published, class Visit>
requires std::same_as<std::remove_const_t<Published>, RankInfo>
void for_each_published(Published& rank_info, const Visit& visit) {
  visit("host", rank_info.host);
  visit("process", rank_info.process);
  visit("quota", rank_info.quota);
  visit("allowed", rank_info.allowed);
  visit("cache", rank_info.cache);
  visit("node", rank_info.node);
  visit("shm", rank_info.shm);
  visit("domain", rank_info.domain);
  visit("fingerprint", rank_info.fingerprint);
  visit("encrypted", rank_info.encrypted);
  visit("board_limit", rank_info.board_limit);
  visit("trace", rank_info.trace);
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

template <class Published>
std::string encode_published(const Published& published) {
  std::string text{head<Published>};
  for_each_published(published, [&](std::string_view key, const auto& value) {
    std::string line = fmt::format("{}={}", key, value);
    std::ranges::replace(line, '\n', ' ');
    text += line + '\n';
  });
  return text;
}

template <class Published>
Published decode_published(const std::string& text, int rank) {
  Published published;
  std::string_view rest = text;
  bool good = rest.starts_with(head<Published>);
  if (good) rest.remove_prefix(head<Published>.size());
  for_each_published(published, [&](std::string_view key, auto& value) {
    const auto line = take_line(rest, key);
    good = good && line && read(*line, value);
  });
  if (good && rest.empty()) return published;
  throw Error{
      ErrorCode::rendezvous,
      fmt::format("rank {} published something that is not of this version of tutti ({} bytes): another program "
                  "or version shares this store under the same job name",
                  rank, text.size()),
      rank};
}

/// The first rank for which `holds` is true; if there is none, `ranks`.
template <class Holds>
std::size_t first_rank(std::size_t ranks, const Holds& holds) {
  std::size_t rank = 0;
  while (rank < ranks && !holds(rank)) ++rank;
  return rank;
}

}  // namespace

std::string RankInfo::encode() const { return encode_published(*this); }
RankInfo RankInfo::decode(const std::string& text, int rank) { return decode_published<RankInfo>(text, rank); }

std::string RankAccess::encode() const { return encode_published(*this); }
RankAccess RankAccess::decode(const std::string& text, int rank) { return decode_published<RankAccess>(text, rank); }

void check_families(const std::vector<RankInfo>& rank_infos, const std::vector<RankAccess>& accesses) {
  for (const bool v6 : {false, true}) {
    const auto publishes = [&](std::size_t rank) {
      const auto address = net::parse_address(accesses[rank].first_address());
      return !rank_infos[rank].families.empty() && address && address->family() == (v6 ? AF_INET6 : AF_INET) &&
             !address->is_loopback();
    };
    const auto lacks = [&](std::size_t rank) {
      const std::string& families = rank_infos[rank].families;
      return !families.empty() && families.find(v6 ? '6' : '4') == std::string::npos;
    };
    const std::size_t publisher = first_rank(rank_infos.size(), publishes);
    const std::size_t lacking = first_rank(rank_infos.size(), lacks);
    if (publisher == rank_infos.size() || lacking == rank_infos.size()) continue;
    throw Error{
        ErrorCode::rendezvous,
        fmt::format("rank {0} (host {1}) cannot reach rank {2} (host {3}): rank {2} publishes {4}, an address of "
                    "IPv{5}, and host {1} has addresses of IPv{6} only. Set TUTTI_SOCKET_FAMILY={7} for all "
                    "ranks, or name the interface with TUTTI_SOCKET_IFNAME",
                    lacking, rank_infos[lacking].host, publisher, rank_infos[publisher].host,
                    accesses[publisher].acceptor, v6 ? 6 : 4, v6 ? 4 : 6, v6 ? "AF_INET" : "AF_INET6"),
        static_cast<int>(lacking)};
  }
}

}  // namespace tutti::detail
