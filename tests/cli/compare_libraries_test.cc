// What the comparison with other libraries rests on: that wrong results are seen, and that like is compared with like.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/compare_libraries/figures.h"
#include "cli/bench/compare_libraries/settings.h"
#include "cli/bench/compare_libraries/standings.h"
#include "cli/measure/workload.h"
#include "tutti/error.h"

using namespace tutti::cli;
using measure::MeasuredCall;
using measure::Task;
using tutti::Collective;

namespace {

using Buffers = std::vector<std::vector<float>>;

struct World {
  std::vector<Task> tasks;
  Buffers inputs;
  Buffers outputs;

  World(MeasuredCall call, int ranks, std::size_t bytes) {
    for (int rank = 0; rank < ranks; ++rank) {
      tasks.push_back(measure::task_of(call, rank, ranks, bytes));
      inputs.emplace_back(tasks.back().input + 1);
      outputs.emplace_back(tasks.back().output + 1);
      measure::fill(tasks.back(), inputs.back().data(), outputs.back().data());
    }
  }

  /// What the collective gives, by its definition.
  float expected(int rank, std::size_t place) const {
    const Task& task = tasks[static_cast<std::size_t>(rank)];
    const auto me = static_cast<std::size_t>(rank);
    const std::size_t peer = task.part > 0 ? place / task.part : 0;
    const std::size_t within = task.part > 0 ? place % task.part : 0;
    float sum = 0;
    if (task.call == measure::send_recv) return inputs[(me + inputs.size() - 1) % inputs.size()][place];
    switch (task.call.collective) {
      case Collective::broadcast:
        return inputs[0][place];
      case Collective::scatter:
        return inputs[0][me * task.part + place];
      case Collective::all_gather:
      case Collective::gather:
        return inputs[peer][within];
      case Collective::all_to_all:
        return inputs[peer][me * task.part + within];
      case Collective::reduce_scatter:
        for (const auto& input : inputs) sum += input[me * task.part + place];
        return sum;
      case Collective::scan:
      case Collective::exclusive_scan:
        for (std::size_t k = 0; k < me + (task.call == Collective::scan ? 1 : 0); ++k) sum += inputs[k][place];
        return sum;
      default:
        for (const auto& input : inputs) sum += input[place];
        return sum;
    }
  }
};

versus::Row row_of(const std::string& side, const std::string& setting, double time, double probe) {
  versus::Row row;
  row.point = {"shm", Collective::broadcast, 2, 64};
  row.side = side;
  row.setting = setting;
  row.cores = 2;
  row.times.single = time;
  row.probe_before = row.probe_after = probe;
  return row;
}

}  // namespace

TEST_CASE("the right result of a call passes, and one element that differs is one wrong element") {
  for (const MeasuredCall call : measure::all_calls) {
    if (call == measure::all_to_all_v) continue;
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{1000}}) {
      CAPTURE(std::string{measure::name_of(call)});
      CHECK(measure::find_call(measure::name_of(call)) == call);
      World world{call, 3, bytes};
      for (int rank = 0; rank < 3 && call != Collective::barrier; ++rank) {
        const Task& task = world.tasks[static_cast<std::size_t>(rank)];
        std::vector<float>& output = world.outputs[static_cast<std::size_t>(rank)];
        CHECK(task.bytes >= bytes);
        const bool gets = call == Collective::exclusive_scan
                              ? rank > 0
                              : rank == 0 || (call != Collective::reduce && call != Collective::gather);
        const bool has_it = call == Collective::broadcast && rank == 0;
        CHECK(measure::count_wrong(task, output.data()) == (gets && !has_it ? task.output : 0));  // spoiled before
        for (std::size_t i = 0; i < task.output; ++i) output[i] = world.expected(rank, i);
        CHECK(measure::count_wrong(task, output.data()) == 0);
        output[task.output / 2] += 1;
        CHECK(measure::count_wrong(task, output.data()) == (gets ? 1 : 0));
      }
    }
  }
}

TEST_CASE("a comparison is made within one state, with the best setting of each side") {
  std::vector<versus::Row> rows{row_of("tutti", "a", 4, 100),   row_of("tutti", "b", 2, 100),
                                row_of("tutti", "b", 1, 500),   row_of("openmpi", "a", 6, 120),
                                row_of("openmpi", "b", 1, 100), row_of("limit", "a", 1, 100)};
  rows[4].probe_after = 500;
  versus::tell_states(rows);
  const versus::Comparison near = versus::compare(rows, rows.front().point);
  CHECK(near.state == versus::State::near);
  CHECK(near.of("tutti")->setting == "b");
  CHECK(near.of("tutti")->rows == 1);
  CHECK(near.of("openmpi")->median == 6);
  CHECK(*near.ratio() == 3);
  CHECK(*near.to_limit() == 2);
  CHECK_FALSE(versus::compare_in(versus::State::far, rows, rows.front().point).ratio());
  CHECK(rows[4].state == versus::State::mixed);
}

TEST_CASE(
    "near and far are told apart by the machine's own round trips, and the state with more rows is the usual one") {
  const auto states = [](std::vector<versus::Row> rows) {
    versus::tell_states(rows);
    std::string names;
    for (const versus::Row& row : rows) names += std::string{versus::name_of(row.state)} + " ";
    return names + "usually " + std::string{versus::name_of(versus::usual_state(rows))};
  };
  const auto probed = [](std::initializer_list<double> probes) {
    std::vector<versus::Row> rows;
    for (const double probe : probes) rows.push_back(row_of("tutti", "a", 1, probe));
    return rows;
  };
  CHECK(states(probed({100, 45, 140, 450, 620, 90})) == "near near near far far near usually near");
  CHECK(states(probed({240, 36, 212, 285, 240})) == "far near far far far usually far");
  CHECK(states(probed({240, 212, 285, 190})) == "near near near near usually near");
  CHECK(states(probed({45, 140, 100})) == "near near near usually near");
  CHECK(states(probed({0, 240})) == "alone near usually near");
  CHECK(states(probed({1, 1e9})) == "near far usually near");
  CHECK(states({}) == "usually near");

  std::vector<versus::Row> moving = probed({36, 240, 240, 240});
  moving[1].probe_after = 36;
  CHECK(states(moving) == "near mixed far far usually far");
}

TEST_CASE("where cores are usually far, a comparison is of far rows, and more are wanted of those only") {
  versus::Ledger ledger{""};
  for (const double probe : {36., 240., 240.}) {
    ledger.add(row_of("tutti", "a", probe, probe));
    ledger.add(row_of("openmpi", "a", 2 * probe, probe));
  }
  const versus::Point point = ledger.rows().front().point;
  const versus::Comparison comparison = versus::compare(ledger.rows(), point);
  CHECK(comparison.state == versus::State::far);
  CHECK(comparison.of("tutti")->rows == 2);
  CHECK_FALSE(versus::needs_more(ledger, point, {"tutti", "a", {}, {}}, 2, true));
  CHECK(versus::needs_more(ledger, point, {"tutti", "a", {}, {}}, 3, true));
}

TEST_CASE("a comparison is in the usual state if that has a ratio, in whatever state the limit was measured") {
  std::vector<versus::Row> rows{row_of("tutti", "a", 4, 100), row_of("openmpi", "a", 6, 100),
                                row_of("openmpi", "a", 6, 100), row_of("tutti", "a", 8, 500),
                                row_of("limit", "model", 1, 500)};
  const auto comparison = [&] {
    versus::tell_states(rows);
    return versus::compare(rows, rows.front().point);
  };
  rows.push_back(row_of("openmpi", "a", 9, 500));
  CHECK(comparison().state == versus::State::near);
  CHECK(*comparison().ratio() == 1.5);
  rows.erase(rows.begin());
  rows.push_back(row_of("mpich", "a", 9, 100));  // so that as many libraries have near rows
  CHECK(comparison().state == versus::State::far);
  CHECK(*comparison().ratio() == 1.125);
  rows.erase(rows.begin() + 2);
  REQUIRE(comparison().ratio() == std::nullopt);
  CHECK(comparison().state == versus::State::near);  // of two libraries, in place of one and the limit
}

TEST_CASE("a setting that cannot become the best gets no more rows, but what a library does as shipped does") {
  versus::Ledger ledger{""};
  for (int row = 0; row < 2; ++row) {
    ledger.add(row_of("openmpi", "quick", 10, 100));
    ledger.add(row_of("openmpi", "slow", 100, 100));
    ledger.add(row_of("openmpi", std::string{versus::as_shipped}, 100, 100));
  }
  const versus::Point point = ledger.rows().front().point;
  CHECK(versus::needs_more(ledger, point, {"openmpi", "quick", {}, {}}, 5, true));
  CHECK_FALSE(versus::needs_more(ledger, point, {"openmpi", "slow", {}, {}}, 5, true));
  CHECK(versus::needs_more(ledger, point, {"openmpi", std::string{versus::as_shipped}, {}, {}}, 5, true));
}

TEST_CASE("each library has its mean, its worst point and its points below 1, at its best and as shipped") {
  std::vector<versus::Row> rows;
  const auto add = [&](const char* side, const char* setting, double time, std::size_t size) {
    rows.push_back(row_of(side, setting, time, 100));
    rows.back().point.size = size;
  };
  for (const std::size_t size : {std::size_t{4}, std::size_t{64}}) add("tutti", "bound", 2, size);
  add("impi", "shm", 1, 4);
  add("impi", "as-shipped", 8, 4);
  add("impi", "shm", 4, 64);
  add("openmpi5", "copy", 4, 4);
  add("openmpi5", "as-shipped", 6, 4);
  versus::tell_states(rows);
  const std::vector<versus::Point> points = versus::points_of(rows);
  const auto all = versus::standings(rows, points);
  REQUIRE(all.size() == 3);
  CHECK(all[0].side == "impi");
  CHECK(all[0].best.points == 2);
  CHECK(all[0].best.mean == doctest::Approx(1));  // of 0.5 and 2
  CHECK(all[0].best.worst == 0.5);
  CHECK(all[0].best.where.size == 4);
  CHECK(all[0].best.below_1 == 1);
  CHECK(all[0].shipped.points == 1);
  CHECK(all[0].shipped.mean == doctest::Approx(4));
  CHECK(all[0].shipped.below_1 == 0);
  CHECK(all[1].side == "openmpi5");
  CHECK(all[1].best.mean == doctest::Approx(2));
  CHECK(all[2].side == versus::best_of_all);
  CHECK(all[2].best.points == 2);
  CHECK(all[2].best.mean == doctest::Approx(1));     // impi is the best twice
  CHECK(all[2].shipped.mean == doctest::Approx(3));  // openmpi5
  CHECK(versus::standings(rows, std::vector{points[1]}).size() == 1);
}

TEST_CASE("as shipped a library is compared with tutti as `tutti run` starts it") {
  std::vector<versus::Row> rows;
  const auto add = [&](const char* side, const char* setting, double time, int ranks, const char* transport) {
    rows.push_back(row_of(side, setting, time, 100));  // on two cores
    rows.back().point.ranks = ranks;
    rows.back().point.transport = transport;
  };
  const auto ratio = [&](int ranks, const char* transport) {
    rows.clear();
    add("tutti", "bound", 2, ranks, transport);
    add("tutti", "free", 4, ranks, transport);
    add("tutti", "cyclic", 1, ranks, transport);
    add("openmpi5", "as-shipped", 8, ranks, transport);
    add("openmpi5", "copy", 1, ranks, transport);
    for (versus::Row& row : rows) row.times.loop = row.times.single;
    versus::tell_states(rows);
    return versus::standings(rows, versus::points_of(rows)).front().shipped.mean;
  };
  CHECK(ratio(2, "shm") == doctest::Approx(4));
  CHECK(ratio(3, "shm") == doctest::Approx(2));
  CHECK(ratio(4, "tcp") == doctest::Approx(2));
  CHECK(ratio(4, "hosts:2") == doctest::Approx(4));
  CHECK(ratio(6, "hosts:2") == doctest::Approx(2));
}

TEST_CASE("torch.distributed over Gloo is compared with torch.distributed over tutti, which is no other library") {
  std::vector<versus::Row> rows{row_of("tutti", "bound", 1, 100), row_of("torch-gloo", "as-shipped", 90, 100)};
  versus::tell_states(rows);
  const auto ratio = [&] { return versus::compare(rows, rows.front().point).ratio(); };
  CHECK(*ratio() == 90);
  rows.push_back(row_of("torch-tutti", "tutti", 10, 100));
  versus::tell_states(rows);
  CHECK(*ratio() == 9);
  CHECK(versus::compare(rows, rows.front().point).best_peer() == "torch-gloo");
}

TEST_CASE("a last row that lacks only its newline is kept, and one that lacks more is cut off") {
  char folder[] = "/tmp/tutti-ledger-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string path = std::string{folder} + "/rows.csv";
  versus::Row row = row_of("impi", "shm", 3, 100);
  row.times.iterations = 9;
  versus::Row failed = row;
  failed.times = {};
  failed.trouble = "killed";
  const std::string begin = versus::csv_header() + "\n" + versus::csv_line(row) + "\n";
  const std::string last = versus::csv_line(row);
  const std::string trouble = versus::csv_line(failed);
  const auto without = [](const std::string& line, std::size_t letters) {
    return line.substr(0, line.size() - letters);
  };
  const std::vector<std::pair<std::string, bool>> ends{
      {last, true}, {without(last, 1), false}, {trouble, true}, {without(trouble, failed.trouble.size()), false}};
  for (const auto& end : ends) {
    const auto& [text, is_kept] = end;
    CAPTURE(end.first);
    std::ofstream{path} << begin << text;
    const std::size_t rows = is_kept ? 2 : 1;
    CHECK(versus::Ledger{path, versus::Ledger::Use::reading}.rows().size() == rows);
    CHECK(versus::Ledger{path}.rows().size() == rows);
    std::stringstream now;
    now << std::ifstream{path}.rdbuf();
    CHECK(now.str() == (is_kept ? begin + text + "\n" : begin));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file of rows knows the versions, and takes no rows of another one") {
  char folder[] = "/tmp/tutti-ledger-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string path = std::string{folder} + "/rows.csv";
  const versus::Row row = row_of("impi", "shm", 3, 100);
  {
    versus::Ledger ledger{path};
    ledger.set_version("impi", "Intel MPI 2021.19 is it");
    ledger.set_version("impi", "Intel MPI 2021.19 is it");
    ledger.add(row);
  }
  versus::Ledger again{path};
  CHECK(again.versions() == std::map<std::string, std::string>{{"impi", "Intel MPI 2021.19 is it"}});
  CHECK(again.of(row.point, "impi", "shm").size() == 1);
  again.set_version("mpich5", "MPICH 5");
  versus::Ledger unsaid{""};
  unsaid.add(row);
  CHECK_THROWS_WITH_AS(unsaid.set_version("impi", "Intel MPI 2022"), doctest::Contains("do not say which version"),
                       tutti::Error);
  CHECK_THROWS_WITH_AS(again.set_version("impi", "Intel MPI 2022"), doctest::Contains("give --csv another file"),
                       tutti::Error);
  std::ifstream file{path};
  std::string text;
  int lines = 0;
  while (std::getline(file, text)) ++lines;
  CHECK(lines == 4);  // the header, two versions, one row
  std::filesystem::remove_all(folder);
}
