#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "algorithms/check.h"
#include "algorithms/plan.h"
#include "algorithms/select.h"

namespace tutti::cli {

struct Replays;

/// The subject of `tutti plan`.
struct View {
  Collective collective{};
  algorithms::Choice choice;
  algorithms::Shape shape;              ///< of rank `shape.rank`
  std::vector<algorithms::Plan> plans;  ///< of all ranks, or of `shape.rank` alone if all would be too many
  algorithms::Verdict verdict;          ///< of all ranks, if they are here
  bool complete() const { return plans.size() == static_cast<std::size_t>(shape.ranks); }
  algorithms::Claims claims() const { return {choice.entry->equal_parts, choice.entry->rank_order}; }
};

/// Builds and checks the plans of all ranks, or only that of `shape.rank` if all would take minutes.
View make_view(Collective collective, const algorithms::Choice& choice, const algorithms::Shape& shape);

std::string heading(const View& view);
/// The trees, if the messages form few and small ones; otherwise empty.
std::string trees(const View& view);
/// The first `at_most` steps of one rank, a line each: the global step in which it completes, unless the plans were too
/// large to be run, and what it waits for.
std::string steps(const algorithms::Plan& plan, const Replays& replays, std::size_t at_most);
std::string verdict(const View& view);

/// The costs of all algorithms of the collective, beside the chosen one.
std::string comparison(const View& view, std::size_t bytes);

/// The catalogue, or one collective of it.
std::string list(const std::vector<Collective>& collectives);

std::string to_json(const View& view, const Replays& replays, const std::vector<int>& ranks, const std::string& why);
std::string list_as_json(const std::vector<Collective>& collectives);

}  // namespace tutti::cli
