#include "cli/simulate/simgrid.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/base/own_path.h"
#include "cli/install_folders.h"
#include "cli/simulate/simgrid_limits.h"
#include "tutti/error.h"

namespace tutti::cli::simulate {
namespace {

/// Next to this program in the build folder. When installed, relative to this program, since both may have been moved
/// together.
std::string program() {
  const std::filesystem::path here = std::filesystem::path{own_path()}.parent_path();
  const std::filesystem::path installed =
      here / std::filesystem::path{TUTTI_LIBEXECDIR}.lexically_relative(TUTTI_BINDIR);
  for (const std::filesystem::path& folder : {here / "cli/simulate/simgrid", installed / "tutti"})
    if (const std::string path = folder / "tutti-simgrid"; ::access(path.c_str(), X_OK) == 0) return path;
  throw Error{
      ErrorCode::unsupported,
      "simulate: --simgrid needs the program tutti-simgrid, which is not built. Install libsimgrid-dev (Debian, "
      "Ubuntu) and build again with meson configure -Dsimgrid=enabled"};
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string{c};
  return text + "'";
}

/// The last line of its standard output is the result, or the error. Its standard error is ours, for messages of
/// SimGrid.
double replay(const std::string& path, const SimulatedCall& simulated, const std::string& network) {
  const std::string command = fmt::format("exec {} {} {} {} {} {} {}", quoted(path), name_of(simulated.collective),
                                          quoted(to_string(simulated.choice)), simulated.ranks, simulated.root,
                                          simulated.bytes, quoted(network));
  std::FILE* const process = ::popen(command.c_str(), "re");
  std::string said;
  char part[512];
  while (process != nullptr && std::fgets(part, sizeof part, process) != nullptr) said += part;
  const bool failed = process == nullptr || ::pclose(process) != 0;
  if (said.ends_with('\n')) said.pop_back();
  const std::string last = said.substr(said.rfind('\n') + 1);
  char* end = nullptr;
  const double seconds = std::strtod(last.c_str(), &end);
  const bool told = end != last.c_str() && *end == '\0';
  if (failed || !told)
    throw Error{ErrorCode::unsupported, told || last.empty() ? fmt::format("simulate: {} failed", path) : last};
  return seconds;
}

}  // namespace

double Checked::distance() const {
  return ours.result.seconds > 0 ? simgrid / ours.result.seconds - 1 : simgrid > 0 ? 1 : 0;
}

void refuse_without_simgrid(const std::vector<Job>& jobs) {
  program();
  for (const Job& job : jobs) refuse_too_large_for_simgrid(job.simulated);
}

std::vector<Checked> check_by_simgrid(const std::vector<Timed>& all, const std::string& network, const Told& tell) {
  const std::string path = program();
  std::vector<Checked> found;
  Tally tally{all.size(), tell};
  for (const Timed& one : all) {
    tally.begin(one.simulated);
    found.push_back({one, replay(path, one.simulated, network)});
  }
  return found;
}

std::string to_table(const std::vector<Checked>& all) {
  std::string text = fmt::format("{:>6} {:>6}  {:<26}{:>12}{:>12}{:>10}\n", "ranks", "bytes", "algorithm", "ours",
                                 "SimGrid", "distance");
  double low = 0, high = 0;
  for (const Checked& one : all) {
    const SimulatedCall& simulated = one.ours.simulated;
    text += fmt::format("{:>6} {:>6}  {:<26}{:>12}{:>12}{:>+9.2f}%\n", simulated.ranks, size_text(simulated.bytes),
                        to_string(simulated.choice), time_text(one.ours.result.seconds), time_text(one.simgrid),
                        100 * one.distance());
    low = std::min(low, one.distance());
    high = std::max(high, one.distance());
  }
  return text + fmt::format("\nSimGrid's times are {:.2f} % shorter to {:.2f} % longer than ours.\n",
                            std::abs(100 * low), 100 * high);
}

std::string to_csv(const std::vector<Checked>& all) {
  std::string text = "collective,algorithm,ranks,bytes,seconds,simgrid_seconds,distance\n";
  for (const Checked& one : all)
    text += fmt::format("{},{},{},{},{:.12g},{:.12g},{:.6g}\n", name_of(one.ours.simulated.collective),
                        to_string(one.ours.simulated.choice), one.ours.simulated.ranks, one.ours.simulated.bytes,
                        one.ours.result.seconds, one.simgrid, one.distance());
  return text;
}

}  // namespace tutti::cli::simulate
