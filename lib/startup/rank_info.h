#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::detail {

/// What a rank publishes first about itself in the store: a line with a version, then one line `key=value` for each
/// field.
struct RankInfo {
  std::string host = {};
  std::string process = {};
  int quota = 0;             ///< cores that its cgroup gives it, 0: all
  std::string allowed = {};  ///< cores, as allowed_cores() says
  std::string cache = {};    ///< see Place
  std::string node = {};     ///< the same
  std::string shm = {};      ///< address, empty: none; of a thread its name
  std::string domain = {};
  std::string fingerprint = {};  ///< of the key
  bool encrypted = false;        ///< its connections are
  std::size_t board_limit = 0;   ///< bytes that it would contribute over a board
  std::uint64_t trace = 0;       ///< number of its trace's recorder; 0: it keeps none
  std::string families = {};     ///< of addresses that its host has besides loopback: "4", "6", "46"; empty: unknown

  std::string encode() const;
  /// Throws Error{rendezvous} that names `rank` if the text is not of this version.
  static RankInfo decode(const std::string& text, int rank);
};

/// What a rank publishes once it knows who shares its host, in the same form.
struct RankAccess {
  std::string shm_trouble = {};  ///< why its shared memory does not work; empty: it does, or nobody needs it
  std::string acceptor = {};     ///< address at which it accepts connections; or several, with commas between
  bool tcp = false;              ///< it takes and opens links there, over TCP

  std::string first_address() const { return acceptor.substr(0, acceptor.find(',')); }

  std::string encode() const;
  /// As RankInfo::decode().
  static RankAccess decode(const std::string& text, int rank);
};

/// Throws Error{rendezvous} if one rank publishes an address of a family that another one's host lacks: they would wait
/// for each other until the deadline. All ranks throw the same error.
void check_families(const std::vector<RankInfo>& rank_infos, const std::vector<RankAccess>& accesses);

}  // namespace tutti::detail
