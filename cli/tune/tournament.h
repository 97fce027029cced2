#pragma once

#include <cstddef>
#include <string>
#include <vector>

// Finds the fastest algorithm at one point with little measuring. All remaining entrants run once per round, in reverse
// order every other round, so that changes of the machine affect all of them alike; they are compared round by round.
// Entrants that are far behind leave after a round or two, so time goes to those that are close. Nothing here measures:
// times are passed in.

namespace tutti::cli::tune {

struct Entrant {
  std::string name;
  int first_round = 0;
  std::vector<double> times;  ///< microseconds, a number for each round from the first on, until it left
  bool in = true;
};

class Race {
 public:
  /// `kept` runs in every round, however slow it is; empty: no entrant does.
  explicit Race(const std::vector<std::string>& names, std::string kept = {});

  /// From the next round on. An entrant that is known already, in or out, is not added again.
  void enter(const std::string& name);
  /// The indices of the remaining entrants, in the order of this round.
  std::vector<std::size_t> order() const;
  void add(std::size_t entrant, double microseconds);
  /// All remaining entrants have run: removes those that are behind.
  void end_round();
  /// There is no time for the rest of this round. Entrants that never ran are removed, and the times of this round do
  /// not count, unless it is the only one.
  void abandon_round();

  /// No entrant is left to compare with, or more rounds would not change the answer.
  bool over() const;
  int rounds() const { return rounds_; }
  const std::vector<Entrant>& entrants() const { return entrants_; }
  /// nullptr: there is no entrant of that name.
  const Entrant* find(const std::string& name) const;
  const Entrant& of(const std::string& name) const { return *find(name); }
  /// The fastest remaining entrant; the number of entrants if none has run.
  std::size_t leader() const;

  /// Median over the rounds in which both ran of a's time over b's; 0 without such a round.
  double ratio(const Entrant& a, const Entrant& b) const;
  struct Count {
    int won = 0;
    int of = 0;
    /// Two thirds of enough rounds.
    bool shows_winner() const { return of >= enough_rounds && won * 3 >= of * 2; }
  };
  /// Rounds in which both ran, and how many of them a won.
  Count wins(const Entrant& a, const Entrant& b) const;
  /// All others, if there were any, were far behind in more than one round.
  bool is_alone(const Entrant& one) const;

  static constexpr int enough_rounds = 5;
  static constexpr int most_rounds = 25;

 private:
  std::vector<double> ratios(const Entrant& a, const Entrant& b) const;
  bool is_behind(const Entrant& one, const Entrant& leader) const;

  std::vector<Entrant> entrants_;
  std::string kept_;
  int rounds_ = 0;
};

}  // namespace tutti::cli::tune
