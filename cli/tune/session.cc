// The schedule: when each point is measured, and for how long. A point's share of the remaining time follows from a
// model of its calls, so that eight ranks over TCP at 16 MiB get more of it than two ranks and 4 bytes.

#include "cli/tune/session.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "algorithms/proofs.h"
#include "algorithms/select.h"
#include "cli/base/input_file.h"
#include "cli/measure/measure.h"
#include "cli/tune/candidates.h"
#include "cli/tune/fit.h"
#include "cli/tune/gpus.h"
#include "cli/tune/table.h"
#include "lib/base/host.h"

namespace tutti::cli::tune {
namespace {

constexpr int passes = 2;
constexpr int rounds_for_a_claim = 3;
constexpr double close = 1.3;  // slower candidates run in the first pass only
constexpr std::size_t most_by_loop = 1 << 10;
constexpr std::size_t least_by_bandwidth = 64 << 10;  // below, slow ones may be the best for large messages

struct RacePlace {
  std::string transport;
  int ranks = 2;
  bool oversubscribed = false;
  bool on_gpu = false;

  bool by_loop(std::size_t bytes) const { return oversubscribed && bytes <= most_by_loop; }
};

/// Estimated microseconds of a call; only the shares of time depend on it.
double expected(const RacePlace& place, std::size_t bytes) {
  if (place.on_gpu) return 50.0 * place.ranks + static_cast<double>(bytes) * place.ranks / 20'000;
  const bool tcp = place.transport == "tcp";
  const double latency = (tcp ? 15 : 2) * place.ranks;
  const double bytes_per_us = tcp ? 1500 : 4000;
  return latency + static_cast<double>(bytes) * place.ranks / bytes_per_us;
}

/// Microseconds that a point should get.
double wanted(const RacePlace& place, std::size_t bytes, std::size_t candidates) {
  constexpr double quick_calls = 4000;  // a few hundred microseconds in each of several rounds
  constexpr double calls = 5;
  return static_cast<double>(candidates) * (quick_calls + calls * expected(place, bytes));
}

struct Share {
  double soft = 0;  ///< microseconds_now() after which no round begins
  double hard = 0;  ///< ... after which this round ends, too
};

class Runner {
 public:
  Runner(Workers& workers, RacePlace place, measure::MeasuredCall call, std::size_t bytes)
      : workers_(workers), place_(std::move(place)), call_(call), bytes_(bytes) {}

  Race run(const std::vector<std::string>& names, const std::string& kept, const Candidates& candidates, Share share) {
    constexpr int last_round_to_enter = 5;
    Race race{names, kept};
    const auto goes_on = [&] {
      const double now = measure::microseconds_now();
      return now < share.soft || (race.rounds() < rounds_for_a_claim && now < share.hard) || race.rounds() == 0;
    };
    while (!race.over() && goes_on()) {
      if (!run_round(race, share.hard)) break;
      if (race.rounds() < 2 || race.rounds() > last_round_to_enter) continue;
      const Entrant leader = race.entrants()[race.leader()];
      for (const std::string& name : candidates.neighbours(leader.name, bytes_)) race.enter(name);
    }
    return race;
  }

 private:
  /// Runs a round in portions, so that it can stop in between when time is over.
  bool run_round(Race& race, double hard_end) {
    const std::vector<std::size_t> all = race.order();
    for (std::size_t done = 0; done < all.size();) {
      if (done > 0 && measure::microseconds_now() > hard_end) {
        race.abandon_round();
        return false;
      }
      const Order order = portion(race, std::span{all}.subspan(done));
      for (const double time : workers_.measure(order)) {
        const std::size_t entrant = all[done++];
        race.add(entrant, times_[race.entrants()[entrant].name] = time);
      }
    }
    race.end_round();
    return true;
  }

  /// As many entrants as fit into some milliseconds.
  Order portion(const Race& race, std::span<const std::size_t> entrants) const {
    constexpr double slow = 3000;
    constexpr double batch = 300;  // microseconds for each turn of fast calls
    constexpr double most = 20'000;
    constexpr double places = 32;  // that a board writes in turn and that must be touched first; links have fewer
    Order order;
    order.call = call_;
    order.bytes = bytes_;
    order.loop = place_.by_loop(bytes_);
    double total = 0;
    for (const std::size_t entrant : entrants) {
      const std::string& name = race.entrants()[entrant].name;
      const auto known = times_.find(name);
      const bool is_new = known == times_.end();
      const double time = is_new ? expected(place_, bytes_) : known->second;
      const int warm = is_new ? static_cast<int>(std::clamp(slow / time, 1.0, places)) : time < slow ? 1 : 0;
      const int calls = static_cast<int>(order.loop ? std::clamp(2 * batch / time, 4.0, 1000.0)
                                                    : std::clamp(batch / time, 1.0, is_new ? 5.0 : 40.0));
      total += time * (warm + calls);
      if (order.count > 0 && (total > most || !order.has_room(calls))) break;
      order.add(name, warm, calls);
    }
    return order;
  }

  Workers& workers_;
  RacePlace place_;
  measure::MeasuredCall call_;
  std::size_t bytes_;
  std::map<std::string, double> times_;
};

/// The sizes of one collective with one transport and number of ranks.
struct Line {
  RacePlace place;
  measure::MeasuredCall call{};
  Candidates candidates;
  std::vector<std::size_t> sizes;
};

class Schedule {
 public:
  Schedule(const Options& options, const std::function<void(const std::string&)>& progress)
      : options_(options), progress_(progress), begin_(measure::microseconds_now()) {
    for (const RacePlace& place : places(options))
      for (const measure::MeasuredCall call : options.calls) {
        const bool barrier = call == Collective::barrier;
        Candidates candidates{call.collective, place.ranks, place.transport};
        lines_.push_back({place, call, std::move(candidates), barrier ? std::vector<std::size_t>{0} : options.sizes});
      }
    if (options.on_gpu && options.check && !options.table.empty())
      table_ = algorithms::TuningTable::parse(read_input("tune", options.table), options.table);
    for (const Line& line : lines_)
      for (const std::size_t bytes : line.sizes) {
        for (const std::string& name : line.candidates.at(bytes)) prove(line, bytes, name);
        wants_ += (1 + later_pass * (passes - 1)) * wanted(line, bytes);
        points_.push_back(
            {line.call, line.place.transport, line.place.ranks, line.place.oversubscribed, bytes, "", {}});
      }
  }

  std::vector<Point> run() {
    for (int pass = 0; pass < passes; ++pass) {
      std::unique_ptr<Workers> workers;
      const RacePlace* place = nullptr;
      std::size_t point = 0;
      for (const Line& line : lines_) {
        if (time_left() <= 0) break;
        if (place == nullptr || place->transport != line.place.transport || place->ranks != line.place.ranks) {
          place = &line.place;
          workers.reset();
          workers = std::make_unique<Workers>(WorkerOptions{place->transport,
                                                            place->ranks,
                                                            options_.sizes.back(),
                                                            options_.check ? options_.table : "",
                                                            options_.bind_to_core,
                                                            {},
                                                            options_.gpus.count});
        }
        measure(*workers, line, std::span{points_}.subspan(point, line.sizes.size()));
        point += line.sizes.size();
      }
    }
    std::erase_if(points_, [](const Point& one) { return one.races.empty(); });
    return std::move(points_);
  }

 private:
  /// By transport and number of ranks.
  static std::vector<RacePlace> places(const Options& options) {
    std::vector<RacePlace> places;
    if (options.on_gpu) {
      for (const int ranks : options.ranks)
        for (const std::string& kind : kinds_of(options.transports, ranks, options.gpus))
          places.push_back({kind, ranks, false, true});
      return places;
    }
    const int cores = available_cores();
    for (const std::string& transport : options.transports)
      for (const int ranks : options.ranks) places.push_back({transport, ranks, ranks > cores});
    return places;
  }

  /// What the ranks' table chooses.
  std::string chosen(Workers& workers, const Line& line, std::size_t bytes) const {
    if (!line.place.on_gpu) return workers.choice(line.call, bytes);
    const algorithms::Situation situation{.collective = line.call.collective,
                                          .ranks = line.place.ranks,
                                          .bytes = bytes,
                                          .transport = line.place.transport,
                                          .boards = false};
    const algorithms::Choice choice = table_.select(situation);
    // TUTTI_GPU_MODE=streams outranks a line that says staged.
    const bool is_staged = (line.place.transport != links_kind && table_.stages(situation)) ||
                           (line.place.transport == leader_kind && !runs_in_peers_memory(choice, line.place.ranks));
    return is_staged ? std::string{algorithms::staged_word} : to_string(choice);
  }

  /// Called before anything is measured, since a wrong plan would hang until the deadline and waste the time spent.
  void prove(const Line& line, std::size_t bytes, const std::string& name) {
    if (name == algorithms::staged_word) return;
    const algorithms::Choice choice = algorithms::find(line.call.collective, name);
    proofs_.require(algorithms::settled(choice, line.place.ranks, bytes), line.place.ranks);
  }

  static double wanted(const Line& line, std::size_t bytes) {
    return tune::wanted(line.place, bytes, line.candidates.at(bytes).size());
  }

  double time_left() const { return begin_ + options_.seconds * 1e6 - measure::microseconds_now(); }

  Share next_share(double want) {
    constexpr double overtime = 1.5;
    constexpr double least = 30e3;  // so that there are rounds to compare even if the model is wrong
    const double now = measure::microseconds_now();
    const double part = std::max(0.0, time_left()) * want / wants_;
    wants_ -= want;
    return {now + part, now + std::min(std::max(overtime * part, least), time_left())};
  }

  void measure(Workers& workers, const Line& line, std::span<Point> points) {
    std::map<std::string, std::vector<double>> ratios;
    for (Point& point : points) {
      const double part = point.races.empty() ? 1 : later_pass;
      const Share share = next_share(part * wanted(line, point.bytes));
      if (time_left() <= 0) continue;
      point.chosen = chosen(workers, line, point.bytes);
      std::vector<std::string> names = point.races.empty() ? line.candidates.at(point.bytes) : close_ones(point);
      std::erase_if(names, [&](const std::string& name) { return !is_worth_a_try(ratios[name]); });
      names.insert(names.begin(), point.chosen);
      tell(point, names.size());
      const std::string kept = options_.check ? point.chosen : "";
      Race race = Runner{workers, line.place, line.call, point.bytes}.run(names, kept, line.candidates, share);
      const Entrant& leader = race.entrants()[race.leader()];
      for (const Entrant& one : race.entrants())
        if (const double ratio = race.ratio(one, leader); ratio > 0 && point.bytes >= least_by_bandwidth)
          ratios[one.name].push_back(ratio);
      point.races.push_back(std::move(race));
    }
  }

  /// The candidates of the first pass that were close.
  static std::vector<std::string> close_ones(const Point& point) {
    const Race& race = point.races.front();
    const Entrant& leader = race.entrants()[race.leader()];
    std::vector<std::string> names;
    for (const Entrant& one : race.entrants())
      if (const double ratio = race.ratio(one, leader); ratio > 0 && ratio < close) names.push_back(one.name);
    return names;
  }

  void tell(const Point& point, std::size_t candidates) const {
    if (!progress_) return;
    progress_(fmt::format("{} {} ranks: {} {}, {} candidates{}; {:.0f} of {:.0f} s", point.transport, point.ranks,
                          measure::name_of(point.call), exact_bytes(point.bytes), candidates,
                          point.races.empty() ? "" : " again", options_.seconds - time_left() / 1e6, options_.seconds));
  }

  static constexpr double later_pass = 0.6;  // share of the first pass's time

  const Options& options_;
  const std::function<void(const std::string&)>& progress_;
  double begin_;
  double wants_ = 0;
  algorithms::Proofs proofs_;
  algorithms::TuningTable table_ = algorithms::TuningTable::builtin();  ///< for calls on GPUs
  std::vector<Line> lines_;
  std::vector<Point> points_;
};

}  // namespace

std::vector<Point> measure_all(const Options& options, const std::function<void(const std::string&)>& progress) {
  return Schedule{options, progress}.run();
}

}  // namespace tutti::cli::tune
