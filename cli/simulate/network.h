#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli::simulate {

/// The distance of two ranks: the smallest unit that contains both. Ranks are numbered socket by socket.
enum class Distance : std::uint8_t { socket, host, leaf, far };
inline constexpr std::size_t distances = 4;
std::string_view name_of(Distance distance);

/// The cost of one message, in whole picoseconds (so that sums do not depend on their order).
struct MessageCost {
  double latency = 0;   ///< from the first byte sent to the first byte received
  double gap = 0;       ///< for which both ports are busy beyond the transfer
  double transfer = 0;  ///< of its bytes
};

/// A model network like LogGP: a message of k bytes that leaves an idle port at t arrives at t + latency + k /
/// bandwidth, and keeps both ports busy for gap + k / bandwidth. A rank has two ports, one into its host and one to
/// other hosts, and each serves both directions at once. Values are in picoseconds.
struct Network {
  /// Costs of messages of at least that many bytes: other protocols serve other sizes.
  struct Tier {
    std::size_t from = 0;
    double latency = 0;
    double gap = 0;
    double per_byte = 0;
  };

  /// A GPU that all ranks share, instead of links.
  struct Gpu {
    double per_byte = 0;  ///< read or written by a kernel
    double kernel = 0;    ///< beside its bytes
    double wait = 0;      ///< for a word that is there already
    double signal = 0;    ///< a write of a word
    double latency = 0;   ///< until a wait sees it
    double change = 0;    ///< from one rank's kernels to another's
  };

  std::string name;
  int socket = 1;  ///< ranks per socket
  int host = 1;    ///< ranks per host, a multiple
  int leaf = 1;    ///< ranks below one leaf switch, a multiple
  double start = 0;
  double reduce_per_byte = 0;
  double copy_per_byte = 0;
  double shared_host = 0;  ///< picoseconds per byte of the one link, each way, that all ranks of a host share; 0: none
  double shared_leaf = 0;  ///< the same for the link out of a leaf switch
  std::array<std::vector<Tier>, distances> links;  ///< by distance; ascending, the first from 0
  std::optional<Gpu> gpu;                          ///< then there are no links

  Distance distance(int a, int b) const;
  MessageCost cost(Distance distance, std::size_t bytes) const;
  double reduction(std::size_t bytes) const;
  double copying(std::size_t bytes) const;
};

/// The contents of a network file, including its sections for single algorithms. docs/simulate.md describes the format.
class NetworkFile {
 public:
  /// Throws Error{invalid_argument} naming file, line and error.
  static NetworkFile parse(std::string_view text, std::string_view file_name);
  /// A network that is part of the program, or else the file of that name.
  static NetworkFile open(const std::string& name_or_path);

  /// The network in which the lines below `for ALGORITHM` replace the general ones.
  Network for_algorithm(std::string_view algorithm) const;
  const std::string& name() const { return general_.name; }
  bool is_gpu() const { return general_.gpu.has_value(); }

 private:
  friend class NetworkParser;
  struct Section {
    std::vector<std::string> algorithms;
    Network network;
  };
  Network general_;
  std::vector<Section> sections_;
};

struct BuiltinNetwork {
  std::string_view name;
  std::string_view text;
};
/// summit, summit-physical, 100g, h200.
const std::vector<BuiltinNetwork>& builtin_networks();

}  // namespace tutti::cli::simulate
