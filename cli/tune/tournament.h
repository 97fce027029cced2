#pragma once

#include <cstddef>
#include <string>
#include <vector>

// Who is fastest at one point, found with as little measuring as honesty allows. All who are in run once per round,
// one after the other and in the next round the other way round, so that what the machine does meanwhile hits all of
// them alike, and are compared round by round. Who is far behind leaves after a round or two; time goes to those that
// are close. Nothing here measures: it is told times.

namespace tutti::cli::tune {

struct Entrant {
  std::string name;
  int first_round = 0;
  std::vector<double> times;  ///< microseconds, a number for each round from the first on, until it left
  bool in = true;
};

class Race {
 public:
  /// `kept` runs in every round, however slow it is; empty: nobody has that right.
  explicit Race(const std::vector<std::string>& names, std::string kept = {});

  /// From the next round on. Who is known already, in or out, is not entered again.
  void enter(const std::string& name);
  /// The places of those who are in, in the order of this round.
  std::vector<std::size_t> order() const;
  void add(std::size_t entrant, double microseconds);
  /// All who are in have run: lets go who is behind.
  void end_round();
  /// There is no time for the rest of this round: who never ran is out, and what others ran in it does not count,
  /// unless nobody has run in any other.
  void abandon_round();

  /// Nobody is left to compare with, or more rounds would not change the answer.
  bool over() const;
  int rounds() const { return rounds_; }
  const std::vector<Entrant>& entrants() const { return entrants_; }
  /// nullptr: nobody has that name.
  const Entrant* find(const std::string& name) const;
  const Entrant& of(const std::string& name) const { return *find(name); }
  /// The fastest of those who are in; the number of entrants before anybody has run.
  std::size_t leader() const;

  /// Median over the rounds that both ran of a's time over b's; 0 without such a round.
  double ratio(const Entrant& a, const Entrant& b) const;
  struct Count {
    int won = 0;
    int of = 0;
    /// Two of three, and enough of them to say so.
    bool shows_winner() const { return of >= enough_rounds && won * 3 >= of * 2; }
  };
  /// Rounds that both ran, and in how many of them a was faster than b.
  Count wins(const Entrant& a, const Entrant& b) const;
  /// All others, if there were any, are far behind, for more than one round.
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
