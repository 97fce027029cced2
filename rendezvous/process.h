#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::rendezvous {

/// Identifies a process even if its pid is reused: with the host it runs on and its start time.
struct Process {
  int pid = 0;
  std::uint64_t start = 0;  ///< clock ticks since boot
  std::string scope;        ///< boot id and pid namespace, within which the pid is valid
  std::string host;         ///< for people
};

Process this_process();

/// True if it certainly has ended. False if that is unknown: on another host, or in another container.
bool has_ended(const Process& process);

/// "process 123 on n07".
std::string describe(const Process& process);

/// "pid start scope host" and back; empty for anything else.
std::string encode(const Process& process);
std::optional<Process> decode_process(std::string_view text);

/// The nearest ancestor whose environment lacks `variable`: the launcher that set it for its children, even if a shell
/// script stands in between. pid 0 if none can be seen.
Process launcher_process(std::string_view variable);

/// "process 123 (python3)" that listens on the TCP port; empty if that cannot be seen.
std::string holder_of_port(std::uint16_t port);

}  // namespace tutti::rendezvous
