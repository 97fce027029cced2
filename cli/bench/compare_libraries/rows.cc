#include "cli/bench/compare_libraries/rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/base/input_file.h"
#include "cli/base/output.h"
#include "tutti/error.h"

namespace tutti::cli::versus {
namespace {

constexpr std::size_t columns = 19;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  std::stringstream stream{line};
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  if (line.ends_with(',')) words.emplace_back();
  return words;
}

// Versions are comments, so that programs that read tables skip them.
constexpr std::string_view mark = "# ";
constexpr std::string_view is = " is ";

bool is_of_machine(std::string_view side) { return side == the_processor || side == the_gpu; }

bool depends_on(const Row& row, std::string_view side) {
  if (side == the_processor) return true;
  return side == the_gpu ? row.point.transport == "gpu" : row.side == side;
}

/// Throws std::exception if the word is anything else. The functions of the standard library take "inf" and "2x", too.
template <class T>
T number_in(const std::string& word) {
  T value{};
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc{} || end != word.data() + word.size()) throw std::invalid_argument("not a number");
  if (!std::isfinite(static_cast<double>(value))) throw std::invalid_argument("not a finite number");
  return value;
}

/// Throws std::exception if it is not a row.
Row parse(const std::vector<std::string>& words) {
  Row row;
  const auto call = measure::find_call(words.at(1));
  if (words.size() != columns || !call) throw std::invalid_argument("not a row");
  row.point = {words[0], *call, number_in<int>(words[2]), number_in<std::size_t>(words[3])};
  row.bytes = number_in<std::size_t>(words[4]);
  row.side = words[5];
  row.setting = words[6];
  row.repetition = number_in<int>(words[7]);
  row.cores = number_in<int>(words[8]);
  row.times = {number_in<double>(words[9]),  number_in<double>(words[10]), number_in<double>(words[11]),
               number_in<double>(words[12]), number_in<double>(words[13]), number_in<int>(words[14])};
  row.wrong = number_in<std::size_t>(words[15]);
  row.probe_before = number_in<double>(words[16]);
  row.probe_after = number_in<double>(words[17]);
  row.trouble = words[18];
  return row;
}

/// Whether only the newline is missing. A row without figures has a reason, which may be what was cut off.
bool is_whole_row(const std::string& line) {
  try {
    const Row row = parse(split(line));
    return !row.trouble.empty() || row.times.iterations > 0;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::string csv_header() {
  return "transport,collective,ranks,size,bytes,side,setting,repetition,cores,time_us,min_us,p95_us,loop_us,skew_us,"
         "iterations,wrong,probe_before_ns,probe_after_ns,trouble";
}

std::string csv_line(const Row& row) {
  std::string trouble = row.trouble;
  for (char& letter : trouble)
    if (letter == ',' || letter == '\n' || letter == '\r') letter = ';';
  return fmt::format("{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{},{},{:.1f},{:.1f},{}",
                     row.point.transport, measure::name_of(row.point.call), row.point.ranks, row.point.size, row.bytes,
                     row.side, row.setting, row.repetition, row.cores, row.times.single, row.times.least, row.times.p95,
                     row.times.loop, row.times.skew, row.times.iterations, row.wrong, row.probe_before, row.probe_after,
                     trouble);
}

Ledger::Ledger(std::string path, Use use) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::string text;
  if (use == Use::reading) {
    text = read_input("bench", path_);  // says why there are no rows
  } else if (const std::ifstream earlier{path_}) {
    std::stringstream all;
    all << earlier.rdbuf();
    text = all.str();
  }
  const std::size_t whole = text.rfind('\n') + 1;  // a full disk, or a signal, may have cut off the last line
  if (whole == 0 && !csv_header().starts_with(text)) refuse(1);
  const bool lacks_newline = whole > 0 && is_whole_row(text.substr(whole));
  read(text.substr(0, lacks_newline ? text.size() : whole));
  if (use == Use::reading) return;
  if (lacks_newline) {
    write("");
    return;
  }
  std::error_code problem;
  if (whole < text.size()) std::filesystem::resize_file(path_, whole, problem);
  if (problem) throw OutputError{"bench", path_, problem.value()};
  if (whole == 0) write(csv_header());
}

void Ledger::read(const std::string& text) {
  std::istringstream file{text};
  std::string line;
  if (std::getline(file, line) && line != csv_header()) refuse(1);
  for (int number = 2; std::getline(file, line); ++number) {
    const std::size_t place = line.find(is);
    if (line.starts_with(mark) && place != std::string::npos) {
      versions_[line.substr(mark.size(), place - mark.size())] = line.substr(place + is.size());
      continue;
    }
    try {
      rows_.push_back(parse(split(line)));
    } catch (const std::exception&) {
      refuse(number);
    }
  }
  tell_states(rows_);
}

void Ledger::refuse(int line) const {
  throw Error{
      ErrorCode::invalid_argument,
      fmt::format("bench: line {} of {} was not written by this comparison; give --csv another file", line, path_)};
}

void Ledger::add(Row row) {
  write(csv_line(row));
  rows_.push_back(std::move(row));
  tell_states(rows_);
}

void Ledger::check_version(const std::string& side, const std::string& version) const {
  const auto known = versions_.find(side);
  const auto is_of_it = [&](const Row& row) { return depends_on(row, side); };
  if (known == versions_.end() && std::any_of(rows_.begin(), rows_.end(), is_of_it))
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: {} has rows{} that do not say {}; give --csv another file", path_,
                            is_of_machine(side) ? "" : " of " + side,
                            is_of_machine(side) ? "what " + side + " is" : "which version")};
  if (known != versions_.end() && known->second != version)
    throw Error{ErrorCode::invalid_argument,
                fmt::format("bench: {} has rows of {} that is {}, but the one here is {}; give --csv another file",
                            path_, side, known->second, version)};
}

void Ledger::set_version(const std::string& side, const std::string& version) {
  check_version(side, version);
  if (versions_.try_emplace(side, version).second) write(fmt::format("{}{}{}{}", mark, side, is, version));
}

void Ledger::write(const std::string& line) const {
  if (path_.empty()) return;
  std::ofstream file{path_, std::ios::app};
  if (!(file << line << std::endl)) throw OutputError{"bench", path_, errno};
}

std::vector<const Row*> Ledger::of(const Point& point, std::string_view side, std::string_view setting) const {
  std::vector<const Row*> found;
  for (const Row& row : rows_)
    if (row.point == point && row.side == side && row.setting == setting) found.push_back(&row);
  return found;
}

}  // namespace tutti::cli::versus
