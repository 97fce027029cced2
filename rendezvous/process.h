#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::rendezvous {

/// A process such that a pid given out a second time is not taken for the first: where it ran, and since when.
struct Process {
  int pid = 0;
  std::uint64_t start = 0;  ///< clock ticks since boot
  std::string scope;        ///< boot id and pid namespace: only there does the pid mean anything
  std::string host;         ///< for people
};

Process this_process();

/// True when it certainly runs no more. False where that cannot be told: on another host, in another container.
bool has_ended(const Process& process);

/// "process 123 on n07".
std::string describe(const Process& process);

/// "pid start scope host" and back; empty for anything else.
std::string encode(const Process& process);
std::optional<Process> decode_process(std::string_view text);

/// The nearest ancestor whose environment lacks `variable`: the process of a launcher that set it for its children,
/// also if a shell script stands in between. pid 0 when there is none that can be seen.
Process launcher_process(std::string_view variable);

/// "process 123 (python3)" that listens on the TCP port, or empty where that cannot be seen.
std::string holder_of_port(std::uint16_t port);

}  // namespace tutti::rendezvous
