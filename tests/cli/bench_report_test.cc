#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "cli/bench/compare.h"
#include "cli/bench/machine.h"
#include "cli/bench/short.h"

using namespace tutti;
using namespace tutti::cli::bench;

namespace {

std::vector<std::string> fields(const std::string& line) {
  std::istringstream words{line};
  return {std::istream_iterator<std::string>{words}, {}};
}

RowResult all_reduce_row() {
  RowResult row;
  row.bytes = 33554432;
  row.count = 8388608;
  row.type = "float";
  row.op = "sum";
  row.out_of_place = {4123.456, {8.1374, 14.2405}, 0, 20, {}};
  row.in_place = {99999.96, {123456.7, 0.004}, 3, 20, {}};
  return row;
}

Comparison compared(std::size_t bytes, const std::vector<std::vector<double>>& times) {
  const char* const names[] = {"ring", "tree", "chain"};
  Comparison comparison{bytes, bytes / 4, "float", "sum", -1, {}, 0};
  for (std::size_t i = 0; i < times.size(); ++i) comparison.contenders.push_back({names[i], times[i], 0, 0, {}, {}});
  comparison.settle(Collective::all_reduce, 4);
  return comparison;
}

const std::vector<double> slow_times(40, 20.0);
const std::vector<double> quick_times(40, 10.0);

}  // namespace

// ---- Text

TEST_CASE("numbers are fitted into their column: two decimals, one, none, powers of ten") {
  CHECK(fitted(1.234, 7) == "1.23");
  CHECK(fitted(9999.994, 7) == "9999.99");
  CHECK(fitted(9999.996, 7) == "10000.0");
  CHECK(fitted(99999.96, 7) == "100000");
  CHECK(fitted(9999999.4, 7) == "9999999");
  CHECK(fitted(12345678, 7) == "1.2e+07");
  CHECK(fitted(12345678, 6) == "1e+07");
}

TEST_CASE("a row of the table has nccl-tests' widths and thirteen fields") {
  const std::string row = table_row(all_reduce_row(), {});
  CHECK(row ==
        "    33554432       8388608     float     sum      -1  4123.46    8.14   14.24       0   100000  123457    0.00"
        "       3\n");
  CHECK(fields(row).size() == 13);
}

TEST_CASE("a row has thirteen fields, with N/A for a form that was not checked or does not exist") {
  RowResult row = all_reduce_row();
  row.out_of_place.wrong = -1;
  row.in_place.reset();
  const std::vector<std::string> words = fields(table_row(row, {}));
  REQUIRE(words.size() == 13);
  CHECK(words[8] == "N/A");
  CHECK(words[12] == "N/A");
}

TEST_CASE("column names stand above their columns") {
  for (const bool single : {false, true}) {
    Options options;
    options.per_iteration = single;
    std::istringstream header{table_header(options)};
    std::string hash, above, names;
    std::getline(header, hash);
    std::getline(header, above);
    std::getline(header, names);
    CHECK(above.find("out-of-place") < above.find("in-place"));
    const std::string row = table_row(all_reduce_row(), options);
    CHECK(names.size() + 1 == row.size());
    CHECK(fields(names).size() == (single ? 22 : 14));
  }
  Options options;
  options.format = Format::wide;
  CHECK(fields(table_row(all_reduce_row(), options)).size() == 21);
}

TEST_CASE("the footer says what scripts look for, with the bandwidth as the last word") {
  Outcome outcome;
  RowResult row = all_reduce_row();
  row.in_place->wrong = 0;
  outcome.add(row);
  const std::string good = table_footer(outcome, {});
  CHECK(good.starts_with("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 7.12225 \n"));
  outcome.least_bandwidth = 8;
  CHECK(outcome.too_slow());
  outcome.add(all_reduce_row());
  CHECK(table_footer(outcome, {})
            .starts_with("# Out of bounds values : 1 FAILED\n# Avg bus bandwidth    : 7.12225 FAILED\n"));
  outcome.least_bandwidth = 7.9;
  CHECK_FALSE(outcome.too_slow());
}

TEST_CASE("csv has one line per placement with as many fields as names") {
  const std::string names = csv_header();
  std::istringstream lines{csv_rows(all_reduce_row(), {})};
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    CHECK(std::count(line.begin(), line.end(), ',') == std::count(names.begin(), names.end(), ','));
  CHECK(count == 2);
}

TEST_CASE("the environment that goes into a file holds no secret and nothing foreign") {
  const char* const environment[] = {"TUTTI_TRANSPORT=tcp", "TUTTI_SECRET=x", "TUTTI_SECRET_FILE=/x", "NCCL_DEBUG=WARN",
                                     "SLURM_JOB_ID=7",      "SLURM_JWT=ey.x", "SLURM_JOB_USER=me",    "HOME=/root",
                                     "MY_TUTTI_X=1",        nullptr};
  CHECK(recorded_environment(environment) ==
        std::vector<std::string>{"NCCL_DEBUG=WARN", "SLURM_JOB_ID=7", "TUTTI_TRANSPORT=tcp"});
}

TEST_CASE("the limits of the cgroups around a process leave what is not used, files in memory not counted") {
  char folder[] = "/tmp/tutti-cgroups-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string top{folder};
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path{top + path}.parent_path());
    std::ofstream{top + path} << text;
  };
  constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
  CHECK(room_in_cgroups("0::/a/b\n", top) == no_limit);
  put("/a/b/memory.max", "max\n");
  put("/a/b/memory.current", "10\n");
  CHECK(room_in_cgroups("0::/a/b\n", top) == no_limit);
  put("/a/memory.max", "1000\n");
  put("/a/memory.current", "700\n");
  CHECK(room_in_cgroups("0::/a/b\n", top) == 300);
  put("/a/memory.stat", "anon 400\ninactive_file 50\nactive_file 40\nslab 1\n");
  CHECK(room_in_cgroups("0::/a/b\n", top) == 390);
  put("/memory/memory.limit_in_bytes", "500\n");
  put("/memory/memory.usage_in_bytes", "600\n");
  CHECK(room_in_cgroups("9:name=systemd:/\n4:memory:/not/seen/here\n0::/a/b\n", top) == 0);
  std::filesystem::remove_all(top);
}

// ---- Comparison

TEST_CASE("a ratio shows a difference only when its interval keeps clear of 1") {
  std::vector<double> noisy, noisier;
  for (int i = 0; i < 40; ++i) {
    noisy.push_back(10 + i % 7);
    noisier.push_back(10.2 + (i * 3) % 7);
  }
  CHECK(ratio_of_medians(slow_times, quick_times).value == 2);
  CHECK(ratio_of_medians(slow_times, quick_times).shows_difference());
  CHECK_FALSE(ratio_of_medians(noisier, noisy).shows_difference());
  CHECK(ratio_of_medians(noisier, noisy).low == ratio_of_medians(noisier, noisy).low);
}

TEST_CASE("the closing sentence follows from the rows") {
  const std::vector<double> level = quick_times;
  const auto sentence = [](const std::vector<Comparison>& rows) { return closing_sentence(rows); };
  CHECK(sentence({compared(1024, {slow_times, quick_times}), compared(32768, {slow_times, quick_times}),
                  compared(1 << 20, {quick_times, slow_times})}) ==
        "up to 32 KiB tree is fastest on this machine, above it ring");
  CHECK(sentence({compared(1024, {slow_times, quick_times}), compared(2048, {slow_times, quick_times})}) ==
        "at all these sizes tree is fastest on this machine");
  CHECK(sentence({compared(1 << 20, {level, quick_times, slow_times})}) ==
        "at 1 MiB no difference shown between ring and tree on this machine");
  CHECK(sentence({compared(8, {level, quick_times}), compared(64, {slow_times, quick_times}),
                  compared(512, {quick_times, slow_times})}) ==
        "up to 64 bytes tree is fastest, or level with the fastest, on this machine, above it ring");
  CHECK(sentence({compared(8, {slow_times, quick_times}), compared(64, {quick_times, slow_times}),
                  compared(512, {level, quick_times})}) ==
        "up to 8 bytes tree is fastest on this machine, above it ring is fastest, or level with the fastest");
  CHECK(sentence({compared(8, {level, quick_times, slow_times}), compared(64, {slow_times, quick_times, level})}) ==
        "at all these sizes nothing is shown to be faster than tree on this machine");
  CHECK(sentence({}) == "");
}

TEST_CASE("the library's own choice is given by sizes, and only where it is known") {
  std::vector<Comparison> rows{compared(1024, {slow_times, quick_times}), compared(2048, {slow_times, quick_times}),
                               compared(4096, {slow_times})};
  CHECK(sentence_of_choice(rows) == "");
  for (Comparison& row : rows) row.chosen = "direct";
  CHECK(sentence_of_choice(rows) == "where no algorithm is named, tutti takes direct");
  rows[2].chosen = "ring";
  CHECK(sentence_of_choice(rows) == "where no algorithm is named, tutti takes direct up to 2 KiB, above it ring");
  rows[1].chosen = "tree";
  CHECK(sentence_of_choice(rows) ==
        "where no algorithm is named, tutti takes direct up to 1 KiB, tree up to 2 KiB, above it ring");
}

TEST_CASE("rows of several types are concluded apart") {
  std::vector<Comparison> rows{compared(8, {slow_times, quick_times}), compared(8, {quick_times, slow_times})};
  rows[1].type = "double";
  CHECK(closing_sentences(rows) == std::vector<std::string>{"float sum: at 8 bytes tree is fastest on this machine",
                                                            "double sum: at 8 bytes ring is fastest on this machine"});
}

TEST_CASE("a compared row marks the best, and ratios that could be chance") {
  const std::string row = compare_row(compared(1024, {slow_times, quick_times, quick_times}));
  const std::vector<std::string> words = fields(row);
  REQUIRE(words.size() == 15);
  CHECK(words[7 - 2] == "20.00");
  CHECK(words[7] == "2.00");
  CHECK(words[10] == "best");
  CHECK(words[13] == "1.00?");
  CHECK(words[14] == "0");
}

TEST_CASE("--format short fits 80 columns and says what was right, best, or chance") {
  Comparison comparison = compared(4 << 20, {slow_times, quick_times, quick_times});
  CHECK(short_comparison(comparison) ==
        "4 MiB\n"
        "  ring      20 us  ################################ 2.00 x\n"
        "  tree      10 us  ################                 best\n"
        "  chain     10 us  ################                 1.00 x, may be chance\n");
  comparison.contenders[0].wrong = 3;
  CHECK(short_comparison(comparison).find("2.00 x  WRONG: 3 elements\n") != std::string::npos);
  CHECK(short_row(all_reduce_row()) == "    32 MiB     4.12 ms   bus bandwidth  14.2405 GB/s\n");

  Options options;
  options.algorithm = "ring";
  Machine machine;
  machine.devices.resize(8);
  machine.cores = 2;
  machine.transport = "tcp";
  CHECK(short_heading(options, machine) == "all_reduce of float, sum, by ring: 8 ranks over tcp; 2 cores here\n");
  CHECK(short_sentence("at 4 MiB ring is fastest on this machine") == "At 4 MiB ring is fastest on this machine.\n");
  CHECK(short_footer({}, options) == "All results were right.\n");
  Outcome wrong;
  wrong.add(all_reduce_row());
  CHECK(short_footer(wrong, options) == "WRONG results: 1\n");
  options.check = 0;
  CHECK(short_footer(wrong, options) == "Results were not checked (-c).\n");
}
