#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tutti {

/// The log of one rank, for people who look for a cause. Grammar and meaning of the variables are NCCL's: TUTTI_DEBUG
/// (VERSION, WARN, INFO, TRACE), TUTTI_DEBUG_SUBSYS (list of subsystems; ^ before it: all but these), TUTTI_DEBUG_FILE
/// (%h host, %p pid, %r rank; else stderr). Warnings appear without any of them.
///
///   n07:4242:4242 [3] TUTTI INFO text
///   n07:4242:4242 [3] 12.345678 TUTTI TRACE text        seconds since the log was opened
///
/// Threading: any; a line is written in one piece. Failure: lines that cannot be written are lost.
class Log {
 public:
  enum class Level : std::uint8_t { none, version, warn, info, trace };
  enum class Subsystem : std::uint8_t { init, net, shm, store, coll, p2p, algo, tune, env };

  /// Warnings only, to stderr.
  Log();
  /// As the variables of this process say. Throws Error{invalid_argument} for unknown words, with the nearest known
  /// one, and for a file that cannot be written.
  static Log from_environment(int rank, const std::string& host);
  /// Throws the same for unknown words, without opening the file.
  static void check_variables();

  bool shows(Level level, Subsystem subsystem) const {
    return level <= level_ && ((subsystems_ >> static_cast<unsigned>(subsystem)) & 1) != 0;
  }
  void version(std::string_view text) const noexcept;
  void warn(std::string_view text) const noexcept;
  void info(Subsystem subsystem, std::string_view text) const noexcept;
  void trace(Subsystem subsystem, std::string_view text) const noexcept;

 private:
  struct Target;

  void write(Level level, std::string_view text) const noexcept;

  Level level_ = Level::warn;
  std::uint32_t subsystems_ = 0;
  std::shared_ptr<const Target> target_;  ///< null: plain text to stderr
};

}  // namespace tutti
