// One start of one side: its launcher in a process group of its own, the lines that it prints, and its end. Ranks that
// a launcher put into other groups end with their parent, or by their own alarm.

#include "cli/bench/compare_libraries/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "cli/base/stop_request.h"
#include "cli/measure/rank_sync.h"
#include "cli/run/process.h"
#include "tutti/error.h"

namespace tutti::cli::versus {

namespace {

/// Where the ranks of one start meet; in memory if possible, and removed with this object.
class Folder {
 public:
  Folder() {
    for (const char* place : {"/dev/shm", "/tmp"}) {
      path_ = std::string{place} + "/tutti-versus-XXXXXX";
      if (::mkdtemp(path_.data()) != nullptr) return;
    }
    throw Error{ErrorCode::system, fmt::format("bench: no folder in /dev/shm or /tmp: {}", std::strerror(errno))};
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> with_environment(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (const char* const* entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool replaced =
        std::any_of(more.begin(), more.end(), [&](const std::string& one) { return one.starts_with(name); });
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

/// A running start and its output so far.
class Running {
 public:
  Running(const std::vector<std::string>& words, const std::vector<std::string>& environment)
      : nothing_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    Start what;
    what.path = find_program(words.front());
    what.arguments = words;
    what.environment = with_environment(environment);
    what.input = nothing_.get();
    process_ = start(what);
  }
  ~Running() { end(); }
  Running(const Running&) = delete;

  /// Reads until it has ended, has printed "end", or the time is over.
  void read_until(double deadline) {
    while (!told_to_stop && measure::microseconds_now() < deadline && !has_ended() && !said_end()) wait_and_read();
    wait_and_read();
  }

  /// SIGTERM first, since launchers clean up.
  void end() {
    constexpr double grace_us = 1'500'000;
    for (const int signal : {0, SIGTERM, SIGKILL}) {
      if (signal == 0 && !said_end()) continue;
      if (signal != 0 && !has_ended()) ::kill(-process_.pid, signal);
      const double deadline = measure::microseconds_now() + grace_us;
      while (!has_ended() && measure::microseconds_now() < deadline && !(signal == 0 && told_to_stop)) wait_and_read();
    }
    ::kill(-process_.pid, SIGKILL);  // processes that the launcher left in its group
  }

  bool has_ended() {
    if (!status_) status_ = status_if_ended(process_.pid);
    return status_.has_value();
  }
  bool said_end() const { return out_.ends_with("\nend\n") || out_.find("\nend\n") != std::string::npos; }
  const std::string& out() const { return out_; }

  std::string why(int seconds) {
    if (told_to_stop) return "stopped";
    if (!status_) return fmt::format("killed after {} s", seconds) + quoted("; its last output: ", last_line());
    const std::string how = WIFSIGNALED(*status_) ? fmt::format("ended by signal {}", WTERMSIG(*status_))
                                                  : fmt::format("exit code {}", WEXITSTATUS(*status_));
    return how + quoted(": ", first_error().empty() ? last_line() : first_error());
  }
  bool succeeded() const { return status_ && WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0; }

 private:
  void wait_and_read() {
    pollfd ends[] = {{process_.out.get(), POLLIN, 0}, {process_.err.get(), POLLIN, 0}};
    const bool silent = !process_.out && !process_.err;  // its output is closed, so it is about to end
    ::poll(ends, 2, silent ? 1 : 50);
    drain(process_.out, out_);
    drain(process_.err, err_);
  }

  static void drain(Descriptor& from, std::string& into) {
    char piece[4096];
    for (;;) {
      const ssize_t count = from ? ::read(from.get(), piece, sizeof piece) : -1;
      if (count == 0) from.reset();
      if (count <= 0) return;
      into.append(piece, static_cast<std::size_t>(count));
    }
  }

  static std::string quoted(const std::string& before, const std::string& line) {
    constexpr std::size_t enough = 120;
    return line.empty() ? "" : before + line.substr(0, enough);
  }

  static bool says_something(const std::string& line) { return line.find_first_not_of(" -=\t\r") != std::string::npos; }

  /// On stderr; later lines are mostly the launcher's.
  std::string first_error() const {
    std::istringstream lines{err_};
    for (std::string line; std::getline(lines, line);)
      if (says_something(line)) return line;
    return "";
  }

  /// It shows how far a process had come that was silent at the end.
  std::string last_line() const {
    std::string last;
    for (const std::string& text : {out_, err_}) {
      std::istringstream lines{text};
      for (std::string line; std::getline(lines, line);)
        if (says_something(line)) last = line;
    }
    return last;
  }

  Descriptor nothing_;
  Process process_;
  std::string out_;
  std::string err_;
  std::optional<int> status_;
};

std::vector<Row> rows_in(const std::string& output, const Setting& setting, const Line& line, int cores) {
  std::vector<Row> rows;
  std::istringstream lines{output};
  for (std::string text; std::getline(lines, text);) {
    std::istringstream words{text};
    std::string mark;
    Row row;
    measure::Times& times = row.times;
    words >> mark >> row.point.size >> row.bytes >> times.single >> times.least >> times.p95 >> times.loop >>
        times.skew >> times.iterations >> row.wrong >> row.probe_before >> row.probe_after;
    if (!words || mark != "row") continue;
    row.point = line.point(row.point.size);
    row.side = setting.side;
    row.setting = setting.name;
    row.cores = cores;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// A row that reports the failure for the first size without a row.
Row failure(const std::vector<Row>& rows, const std::vector<std::size_t>& sizes, const Setting& setting,
            const Line& line, int cores, std::string trouble) {
  const auto is_missing = [&](std::size_t size) {
    return std::none_of(rows.begin(), rows.end(), [&](const Row& row) { return row.point.size == size; });
  };
  const auto missing = std::find_if(sizes.begin(), sizes.end(), is_missing);
  Row row;
  row.point = line.point(missing == sizes.end() ? sizes.back() : *missing);
  row.side = setting.side;
  row.setting = setting.name;
  row.cores = cores;
  row.trouble = std::move(trouble);
  return row;
}

}  // namespace

Version ask_version(const Sides& sides, const std::string& side) {
  constexpr int seconds = 60;  // PyTorch from a cold disk takes half of it
  try {
    Running running{sides.ask_version(side), {}};
    running.read_until(measure::microseconds_now() + seconds * 1e6);
    const std::string line = running.out().substr(0, running.out().find('\n'));
    if (running.succeeded() && !line.empty()) return {line, ""};
    return {"", "it does not tell its version: " + running.why(seconds)};
  } catch (const StartError& error) {
    return {"", error.message};
  }
}

std::vector<Row> launch(const Sides& sides, const Setting& setting, const Line& line,
                        const std::vector<std::size_t>& sizes, const Limits& limits, int cores) {
  const Folder folder;
  const int seconds = limits.seconds > 0 ? limits.seconds : 20 + 5 * static_cast<int>(sizes.size());
  std::vector<std::string> words = setting.launcher;
  for (const std::string& word : {sides.program(setting.side),
                                  std::string{"--call"},
                                  std::string{measure::name_of(line.call)},
                                  std::string{"--sizes"},
                                  fmt::format("{}", fmt::join(sizes, ",")),
                                  std::string{"--setting"},
                                  setting.name,
                                  std::string{"--folder"},
                                  folder.path(),
                                  std::string{"--transport"},
                                  line.transport,
                                  std::string{"--ranks"},
                                  std::to_string(line.ranks),
                                  std::string{"--cores"},
                                  std::to_string(cores),
                                  std::string{"--probe-cores"},
                                  fmt::format("{}", fmt::join(measure::first_two_cores(), ",")),
                                  std::string{"--budget-ms"},
                                  fmt::format("{}", limits.budget.milliseconds),
                                  std::string{"--cap-ms"},
                                  fmt::format("{}", limits.budget.most),
                                  std::string{"--computing-us"},
                                  fmt::format("{}", limits.budget.computing),
                                  std::string{"--seconds"},
                                  std::to_string(seconds + 5)})
    words.push_back(word);
  try {
    Running running{words, setting.environment};
    running.read_until(measure::microseconds_now() + seconds * 1e6);
    std::vector<Row> rows = rows_in(running.out(), setting, line, cores);
    for (Row& row : rows) row.times.computing = limits.budget.computing;
    if (!running.said_end() && !told_to_stop)
      rows.push_back(failure(rows, sizes, setting, line, cores, running.why(seconds)));
    return rows;
  } catch (const StartError& error) {
    return {failure({}, sizes, setting, line, cores, error.message)};
  }
}

}  // namespace tutti::cli::versus
