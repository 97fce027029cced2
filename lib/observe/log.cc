#include "lib/observe/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/environment.h"
#include "lib/base/suggest.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using Level = Log::Level;
using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 5> levels{"", "VERSION", "WARN", "INFO", "TRACE"};
constexpr std::array<std::string_view, 9> subsystems{"INIT", "NET",  "SHM",  "STORE", "COLL",
                                                     "P2P",  "ALGO", "TUNE", "ENV"};

constexpr std::uint32_t bit(Log::Subsystem subsystem) { return 1U << static_cast<unsigned>(subsystem); }
constexpr std::uint32_t all = (1U << subsystems.size()) - 1;
/// Once per communicator, not per operation.
constexpr std::uint32_t set_up = bit(Log::Subsystem::init) | bit(Log::Subsystem::net) | bit(Log::Subsystem::shm) |
                                 bit(Log::Subsystem::store) | bit(Log::Subsystem::env);

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::uint32_t parse_subsystems(const std::string& text) {
  if (text.empty()) return set_up;
  const bool exclude = text.front() == '^';
  std::uint32_t named = 0;
  for (std::string_view rest = std::string_view{text}.substr(exclude ? 1 : 0); !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string word = upper(std::string{rest.substr(0, end)});
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto found = std::find(subsystems.begin(), subsystems.end(), word);
    if (word != "ALL" && found == subsystems.end())
      throw environment::wrong("TUTTI_DEBUG_SUBSYS", text, fmt::format("\"{}\" is not a subsystem", word),
                               did_you_mean(word, subsystems));
    named |= word == "ALL" ? all : 1U << (found - subsystems.begin());
  }
  return exclude ? all & ~named : named;
}

/// "%h" host, "%p" pid, "%r" rank, "%%" a percent sign.
std::string parse_path(const std::string& text, int rank, const std::string& host) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      path += text[i];
      continue;
    }
    const std::string mark = text.substr(i, 2);
    switch (mark.size() > 1 ? text[++i] : '\0') {
      case 'h':
        path += host;
        break;
      case 'p':
        path += std::to_string(::getpid());
        break;
      case 'r':
        path += std::to_string(rank);
        break;
      case '%':
        path += '%';
        break;
      default:
        throw environment::wrong("TUTTI_DEBUG_FILE", text, fmt::format("\"{}\" stands for nothing", mark));
    }
  }
  return path;
}

}  // namespace

struct Log::Target {
  Descriptor file;  ///< none: stderr
  std::string host;
  int rank = 0;
  Clock::time_point begin = Clock::now();
};

Log::Log() = default;

Log Log::from_environment(int rank, const std::string& host) {
  Log log;
  const auto level = environment::word("TUTTI_DEBUG");
  const std::string list = tutti::variable("TUTTI_DEBUG_SUBSYS").value_or("");
  const std::uint32_t chosen = parse_subsystems(list);  // even if nothing is shown, so that a wrong word is refused
  const auto file = tutti::variable("TUTTI_DEBUG_FILE");
  if (!level && !file) return log;
  auto target = std::make_shared<Target>();
  target->host = host;
  target->rank = rank;
  if (file) {
    const std::string path = parse_path(*file, rank, host);
    target->file = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
    if (!target->file)
      throw environment::wrong("TUTTI_DEBUG_FILE", *file,
                               fmt::format("not a file that can be written: {}: {}", path, std::strerror(errno)),
                               "Name a file in a folder that exists and may be written.");
  }
  if (level) log.level_ = static_cast<Level>(*level + 1);  // as they stand in `levels`
  log.subsystems_ = chosen;
  log.target_ = std::move(target);
  return log;
}

void Log::check_variables() {
  environment::word("TUTTI_DEBUG");
  parse_subsystems(tutti::variable("TUTTI_DEBUG_SUBSYS").value_or(""));
  parse_path(tutti::variable("TUTTI_DEBUG_FILE").value_or(""), 0, {});
}

void Log::version(std::string_view text) const noexcept {
  if (target_ && level_ >= Level::version) write(Level::version, text);
}

void Log::warn(std::string_view text) const noexcept {
  if (level_ >= Level::warn) write(Level::warn, text);
}

void Log::info(Subsystem subsystem, std::string_view text) const noexcept {
  if (shows(Level::info, subsystem)) write(Level::info, text);
}

void Log::trace(Subsystem subsystem, std::string_view text) const noexcept {
  if (shows(Level::trace, subsystem)) write(Level::trace, text);
}

void Log::write(Level level, std::string_view text) const noexcept try {
  std::string line;
  if (!target_) {
    line = fmt::format("tutti: {}\n", text);
  } else {
    std::string time;
    if (level == Level::trace)
      time = fmt::format("{:.6f} ", std::chrono::duration<double>(Clock::now() - target_->begin).count());
    const std::string name = level == Level::version ? "" : fmt::format(" {}", levels[static_cast<std::size_t>(level)]);
    line = fmt::format("{}:{}:{} [{}] {}TUTTI{} {}\n", target_->host, ::getpid(), ::gettid(), target_->rank, time, name,
                       text);
  }
  const int to = target_ && target_->file ? target_->file.get() : STDERR_FILENO;
  [[maybe_unused]] const ssize_t written = ::write(to, line.data(), line.size());
} catch (const std::exception&) {
  return;  // no memory for a line
}

}  // namespace tutti
