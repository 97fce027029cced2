// `tutti blackbox`: the command line, and the search for boxes.

#include "cli/blackbox/blackbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <string.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "cli/base/command_line.h"
#include "cli/base/exit_codes.h"
#include "lib/base/descriptor.h"
#include "tutti/error.h"

namespace tutti::cli {
namespace {

using black_box::Snapshot;

constexpr const char* blackbox_examples = R"(Examples:
  tutti blackbox 4242             a rank, or a `tutti run` with all its ranks, while they run or hang
  tutti blackbox /tmp/box-*       files that TUTTI_BLACK_BOX=/tmp/box-%r has written
  tutti blackbox --json -n 1 4242)";

/// Other open files of a process (pipes, terminals, devices) are not touched.
bool may_be_box(int folder, const char* name) {
  struct stat info;
  return ::fstatat(folder, name, &info, 0) == 0 && S_ISREG(info.st_mode) &&
         info.st_size == static_cast<off_t>(sizeof(black_box::Memory));
}

/// Reads each box once, however many of the words and processes have it: a rank has its launcher's descriptor and its
/// own, and one that it has forked has these, too.
class BoxFinder {
 public:
  /// A process or a file. Throws Error that says why there is no box.
  void add(const std::string& word);
  std::vector<Snapshot> boxes() && { return std::move(boxes_); }

 private:
  void add_file(const std::string& path);
  void add_process(int pid);
  bool is_new(const Descriptor& file) {
    struct stat info;
    return ::fstat(file.get(), &info) == 0 && seen_.insert({info.st_dev, info.st_ino}).second;
  }

  std::vector<Snapshot> boxes_;
  std::set<std::pair<dev_t, ino_t>> seen_;
};

void BoxFinder::add(const std::string& word) {
  int pid = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), pid);
  const bool is_number = error == std::errc{} && stop == word.data() + word.size() && pid > 0;
  if (is_number)
    add_process(pid);
  else
    add_file(word);
}

void BoxFinder::add_file(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) throw Error(ErrorCode::invalid_argument, fmt::format("blackbox: {}: {}", path, ::strerror(errno)));
  Snapshot box = black_box::read(file, path);
  if (!box.used) throw Error(ErrorCode::invalid_argument, fmt::format("blackbox: no rank has used {}", path));
  box.gone = black_box::has_gone(box);
  if (is_new(file)) boxes_.push_back(std::move(box));
}

void BoxFinder::add_process(int pid) {
  const std::string path = fmt::format("/proc/{}/fd", pid);
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) {
    const char* why = errno == ENOENT ? "there is no such process" : ::strerror(errno);
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("blackbox: process {}: {}; a file would be written with its folder, as ./{}", pid, why, pid));
  }
  bool has_box = false;
  while (const dirent* entry = ::readdir(folder)) {
    if (!may_be_box(::dirfd(folder), entry->d_name)) continue;
    const Descriptor file{::openat(::dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC)};
    if (!file) continue;
    try {
      Snapshot box = black_box::read(file, path);
      has_box = has_box || box.used;
      if (box.used && is_new(file)) boxes_.push_back(std::move(box));
    } catch (const Error&) {
      continue;  // another file of that size
    }
  }
  ::closedir(folder);
  if (!has_box)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("blackbox: process {} has no black box: it is not a rank of tutti, has not connected yet, or "
                    "has TUTTI_BLACK_BOX=off",
                    pid));
}

/// When processes went is not known: not before the last thing that happened in a box of their host. Orders findings.
void set_ends(std::vector<Snapshot>& boxes) {
  std::map<std::string, std::int64_t> newest;
  for (const Snapshot& box : boxes)
    for (const black_box::OperationRecord& entry : box.entries) {
      std::int64_t& last = newest[box.scope];
      last = std::max({last, entry.call.started, entry.state == black_box::State::started ? 0 : entry.ended});
    }
  for (Snapshot& box : boxes)
    if (box.gone) box.taken = newest[box.scope];
}

}  // namespace

int blackbox_main(int argc, char** argv) {
  std::vector<std::string> words;
  std::size_t most = 20;
  bool json = false;
  CLI::App app{"Prints the last operations of ranks that run, hang or were killed.", "tutti blackbox"};
  app.set_help_flag("-h,--help", "Show this help");
  app.add_option("PID-or-file", words, "A rank, a `tutti run`, or a file")->required()->type_name("...");
  app.add_option("-n", most, "Operations per rank, newest last (20)")->type_name("K");
  app.add_flag("--json", json, "Print JSON");
  app.footer(blackbox_examples);
  if (!parse_command_line(app, argc, argv, "blackbox")) return exit_success;
  BoxFinder finder;
  for (const std::string& word : words) finder.add(word);
  std::vector<Snapshot> boxes = std::move(finder).boxes();
  std::stable_sort(boxes.begin(), boxes.end(), [](const Snapshot& one, const Snapshot& other) {
    return std::tie(one.job, one.rank) < std::tie(other.job, other.rank);
  });
  set_ends(boxes);
  const bool all_gone = std::ranges::all_of(boxes, &Snapshot::gone);
  const std::vector<std::string> findings = compare(boxes, all_gone ? Tense::past : Tense::present);
  if (json) {
    fmt::print("{}\n", as_json(boxes, most, findings));
    return exit_success;
  }
  for (const Snapshot& box : boxes) fmt::print("{}", as_text(box, most));
  for (const std::string& finding : findings) fmt::print("{}\n", finding);
  return exit_success;
}

}  // namespace tutti::cli
