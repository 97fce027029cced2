// The session of a comparison: lines of points, all sides in turn, with as many rounds as the rows need.

#include "cli/bench/compare_libraries/compare_libraries.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <set>

#include "cli/base/exit_codes.h"
#include "cli/base/gpu_driver.h"
#include "cli/base/new_file.h"
#include "cli/base/output.h"
#include "cli/base/progress.h"
#include "cli/base/stop_request.h"
#include "cli/bench/compare_libraries/figures.h"
#include "cli/bench/compare_libraries/hosts.h"
#include "cli/bench/compare_libraries/launch.h"
#include "cli/bench/compare_libraries/lines.h"
#include "cli/bench/compare_libraries/network.h"
#include "cli/bench/compare_libraries/report.h"
#include "cli/bench/compare_libraries/summary.h"
#include "cli/bench/machine.h"
#include "lib/base/gpu/driver.h"
#include "lib/base/host.h"
#include "tutti/error.h"

namespace tutti::cli::versus {
namespace {

Limits limits_of(const bench::Options& options) {
  constexpr double thousand = 1000;
  Limits limits;
  if (options.min_time > 0) limits.budget.milliseconds = options.min_time * thousand;
  if (options.max_time > 0) limits.budget.most = options.max_time * thousand;
  limits.budget.milliseconds = std::min(limits.budget.milliseconds, limits.budget.most);
  limits.budget.computing = options.compute;
  if (options.timeout > 0) limits.seconds = std::max(1, static_cast<int>(options.timeout));
  return limits;
}

class Session {
 public:
  Session(const bench::Options& options, std::vector<std::string> arguments)
      : options_(options),
        arguments_(std::move(arguments)),
        ledger_(options.csv, options.summary ? Ledger::Use::reading : Ledger::Use::measuring),
        lines_(options.summary ? lines_of_rows(options, ledger_.rows()) : lines_of(options)),
        limits_(limits_of(options)),
        cores_(available_cores()) {
    if (options.summary) {
      names_ = rivals_seen();
      return;
    }
    if (options.on_gpu && !cuda::available())
      throw Error{ErrorCode::unsupported, fmt::format("bench: --on gpu needs a GPU: {}", cuda::why_not())};
    sides_.emplace(Folders{options.rivals_dir, options.peers_dir},
                   options.rivals.empty() ? std::vector<std::string>{"all"} : options.rivals);
    names_ = sides_->rivals();
    state(std::string{the_processor}, bench::processor_name());
    if (options.on_gpu) state(std::string{the_gpu}, gpus_text());
    remark();
    take_versions();
    for (const auto& [what, version] : facts_) ledger_.set_version(what, version);
  }

  int run() {
    columns_ = names_;
    for (const std::string_view side : {own_in_torch, std::string_view{"tutti"}})
      if (side == "tutti" || ledger_.versions().contains(std::string{side}))
        columns_.insert(columns_.begin(), std::string{side});
    columns_.emplace_back("limit");
    if (!options_.summary) {
      listen_for_stop();
      note(network());
      if (options_.compute > 0)
        note(fmt::format("each rank computes {:g} us before each call; times are of both, back to back",
                         options_.compute));
    }
    if (options_.format == bench::Format::csv) say(comparison_csv_header(), true);
    if (is_table()) say(table_header(columns_), true);
    for (const Line& line : lines_) {
      if (!options_.summary) measure(line);
      show(line);
      if (told_to_stop) break;
    }
    conclude();
    return told_to_stop ? 128 + told_to_stop : exit_code();
  }

 private:
  /// Where traffic goes, in one sentence.
  std::string network() const {
    const int hosts = hosts_of(lines_.front().transport);
    if (hosts == 0) return enter_own_network();
    require_hosts(hosts);
    return fmt::format("{} hosts, which are network namespaces of this machine", hosts);
  }

  bool is_table() const { return options_.format == bench::Format::table || options_.format == bench::Format::wide; }

  std::vector<std::string> rivals_seen() const {
    std::set<std::string> seen;
    for (const Row& row : ledger_.rows())
      if (is_peer(row.side)) seen.insert(row.side);
    return {seen.begin(), seen.end()};
  }

  /// Prints remarks for the reader, each once.
  void remark() {
    std::set<std::string> told;
    bool any = false;
    for (const Line& line : lines_)
      for (const std::string& rival : names_) {
        const std::string text = sides_->remark(rival, line, cores_);
        if (!text.empty() && told.insert(text).second) note(text);
        any = any || sides_->has(rival, line);
      }
    if (!any)
      throw Error{
          ErrorCode::invalid_argument,
          fmt::format(
              "bench: nothing can be compared: {}. Give another --transport (shm, tcp, hosts:N), or another library",
              fmt::join(told, "; "))};
  }

  /// Asks the libraries that have one of the lines, and says what they answer. One that does not is broken and left
  /// out.
  void take_versions() {
    std::erase_if(names_, [this](const std::string& rival) {
      return std::none_of(lines_.begin(), lines_.end(), [&](const Line& line) { return sides_->has(rival, line); });
    });
    std::erase_if(names_, [this](const std::string& rival) { return !take_version(rival); });
    if (names_.empty()) throw Error{ErrorCode::unsupported, "bench: no library is left to compare with"};
    if (!take_version("tutti")) throw Error{ErrorCode::system, "bench: tutti itself cannot be asked"};
    const bool has_torch = std::find(names_.begin(), names_.end(), "torch-gloo") != names_.end();
    const std::string side{own_in_torch};
    sides_->compare_only(names_, has_torch && take_version(side));
  }

  bool take_version(const std::string& side) {
    const auto version = ask_version(*sides_, side);
    if (version.text.empty()) {
      note(fmt::format("{} is left out: {}", side, version.trouble));
      return false;
    }
    state(side, version.text);
    return true;
  }

  /// A fact about the rows. The file's rows for which it is another one are refused. It is written after all were
  /// checked: a file that is refused is left alone.
  void state(const std::string& what, const std::string& is) {
    ledger_.check_version(what, is);
    facts_.emplace_back(what, is);
    note(fmt::format("{} is {}", what, is));
  }

  /// One side after the other, in reverse order the next time.
  void measure(const Line& line) {
    std::vector<Setting> settings = sides_->settings(line, cores_);
    bool more = true;
    for (int round = 1; more && !told_to_stop; ++round) {
      more = false;
      for (const Setting& setting : settings) {
        const std::vector<std::size_t> sizes = wanted(line, setting);
        if (sizes.empty() || told_to_stop) continue;
        more = true;
        show_progress(fmt::format("{} {}, {} ranks: round {}, {} {}", line.transport, measure::name_of(line.call),
                                  line.ranks, round, setting.side, setting.name));
        for (Row& row : launch(*sides_, setting, line, sizes, limits_, cores_)) {
          row.repetition = static_cast<int>(ledger_.of(row.point, row.side, row.setting).size()) + 1;
          ledger_.add(std::move(row));
        }
      }
      std::reverse(settings.begin(), settings.end());
    }
    show_progress("");
  }

  std::vector<std::size_t> wanted(const Line& line, const Setting& setting) const {
    std::vector<std::size_t> sizes = sides_->sizes(setting.side, line, cores_);
    std::erase_if(sizes, [&](std::size_t size) {
      return !needs_more(ledger_, line.point(size), setting, options_.repetitions, options_.grid);
    });
    return sizes;
  }

  void show(const Line& line) {
    for (const std::size_t size : line.sizes) {
      Comparison comparison = compare(ledger_.rows(), line.point(size));
      if (comparison.sides.empty() && comparison.troubles.empty()) continue;
      if (is_table()) say(table_row(comparison, columns_), true);
      if (options_.format == bench::Format::csv) say(comparison_csv_rows(comparison, columns_), true);
      comparisons_.push_back(std::move(comparison));
    }
  }

  void conclude() {
    if (is_table()) say(table_footer(), false);
    const Report report{columns_, comparisons_, standings(ledger_.rows(), points()), ledger_.versions(), notes_};
    if (options_.grid || options_.summary) say(summary_text(ledger_.rows(), options_.repetitions), !is_json());
    if (is_table()) say(standings_text(report.standings, report.versions), true);
    const bool wants_json = is_json() || !options_.output_file.empty();
    const std::string json = wants_json ? json_document(report, arguments_) : "";
    if (is_json()) say(json, true);
    if (!options_.output_file.empty()) write(options_.output_file, json);
    if (!options_.svg.empty()) write(options_.svg, svg_document(report));
  }

  std::vector<Point> points() const {
    std::vector<Point> all;
    for (const Line& line : lines_)
      for (const std::size_t size : line.sizes) all.push_back(line.point(size));
    return all;
  }

  bool is_json() const { return options_.format == bench::Format::json; }

  void write(const std::string& path, const std::string& text) const {
    const NewFile file = make_new_file(path);
    if (!file.descriptor || !write_all(file.descriptor.get(), text)) throw OutputError{"bench", file.path, errno};
    say(fmt::format("# wrote {}\n", file.path), false);
  }

  /// Rivals may fail; their cells say so. Wrong data of any side, and any failure of tutti, set the exit code.
  int exit_code() const {
    int code = exit_success;
    for (const Comparison& one : comparisons_)
      for (const auto& [side, trouble] : one.troubles) {
        if (side == "tutti" && code == exit_success) code = exit_library;
        if (trouble == "WRONG DATA") code = exit_wrong_data;
      }
    return code;
  }

  void note(const std::string& text) {
    notes_.push_back(text);
    say("# " + text + "\n", false);
  }

  /// Comments go to stderr if a program reads stdout.
  void say(const std::string& text, bool result) const {
    if (!is_table() && !result) return say_error(text);
    print_text(text);
    flush_output();
  }

  void show_progress(const std::string& text) const {
    if (options_.progress == bench::Progress::none) return;
    write_over(options_.progress == bench::Progress::on_stdout ? stdout : stderr, text);
  }

  const bench::Options& options_;
  std::vector<std::string> arguments_;
  Ledger ledger_;
  std::vector<Line> lines_;
  Limits limits_;
  int cores_;
  std::optional<Sides> sides_;
  std::vector<std::string> names_;    ///< the rivals
  std::vector<std::string> columns_;  ///< tutti, the rivals, the limit
  std::vector<std::string> notes_;
  std::vector<std::pair<std::string, std::string>> facts_;  ///< by state()
  std::vector<Comparison> comparisons_;
};

}  // namespace

int versus_main(const bench::Options& options, const std::vector<std::string>& arguments) {
  Session session{options, arguments};
  return session.run();
}

}  // namespace tutti::cli::versus
