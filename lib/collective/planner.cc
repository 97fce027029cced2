#include "lib/collective/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "algorithms/proofs.h"
#include "lib/board/board_call.h"
#include "lib/collective/call.h"
#include "tutti/error.h"

namespace tutti::detail {
namespace {

using algorithms::Choice;
using algorithms::Step;
using algorithms::Verb;

constexpr std::size_t most_remembered_plans = 4096;

std::uint64_t key_of(const Planner::Wish& wish) {
  std::uint64_t key = std::hash<std::string_view>{}(wish.algorithm);
  for (const std::uint64_t part : {std::uint64_t{wish.bytes}, static_cast<std::uint64_t>(wish.root),
                                   static_cast<std::uint64_t>(wish.collective), std::uint64_t{wish.equal_parts}})
    key = (key ^ part) * 0x9e3779b97f4a7c15 + (key >> 29);
  return key;
}

/// Whether a block of the input may be read after it has been copied to its place in the output. With `order` the steps
/// can be thought of as running in the order in which they are listed, as in a plan that was built; those of a given
/// plan may run in any order.
bool reads_copied_blocks(const algorithms::Plan& plan, bool order) {
  using algorithms::Buffer;
  std::vector<bool> copied(static_cast<std::size_t>(plan.shape.ranks) * static_cast<std::size_t>(plan.shape.pipeline));
  const auto is_copied = [&](const algorithms::Blocks& blocks) {
    const auto first = copied.begin() + blocks.first, end = first + blocks.count;
    return blocks.buffer == Buffer::input && std::find(first, end, true) != end;
  };
  const auto is_copy = [](const Step& step) {
    return step.verb == Verb::copy && step.dst.buffer == Buffer::output && step.left.buffer == Buffer::input;
  };
  const auto is_read = [&](const Step& step) { return is_copied(step.left) || is_copied(step.right); };
  for (const Step& step : plan.steps) {
    if (!is_copy(step) && !order) continue;
    if (is_read(step)) return true;
    if (is_copy(step)) std::fill_n(copied.begin() + step.dst.first, step.dst.count, true);
  }
  return !order && std::ranges::any_of(plan.steps, [&](const Step& step) { return !is_copy(step) && is_read(step); });
}

std::unique_ptr<Prepared> make_ready(algorithms::Plan made, std::string name, std::uint32_t hash) {
  auto prepared = std::make_unique<Prepared>();
  prepared->plan = std::move(made);
  prepared->name = std::move(name);
  prepared->label = black_box::label_of(prepared->name);
  prepared->hash = hash;
  const algorithms::Plan& plan = prepared->plan;
  prepared->exchange = algorithms::exchange_of(plan);
  prepared->waits_for = plan.waits_for;
  for (algorithms::StepId step = 0; step < plan.steps.size(); ++step) {
    const Verb verb = plan.steps[step].verb;
    if (verb != Verb::copy && verb != Verb::reduce) ++prepared->waits_for[step];
    if (prepared->waits_for[step] == 0) prepared->first.push_back(step);
  }
  const auto sends = std::ranges::count(plan.lanes, algorithms::Direction::out, &algorithms::Lane::direction);
  prepared->senders_to_root =
      sends == 0 && plan.shape.rank == plan.shape.root ? static_cast<int>(plan.lanes.size()) : 0;
  return prepared;
}

/// Whether a board never has such a call, since its plan sums slices that begin with a rank's own. To find out what it
/// would do there takes time and memory for the slices of all ranks.
bool is_too_long_for_board(const Choice& choice, std::size_t bytes) {
  return choice.entry->mesh && !choice.entry->rank_order && choice.pipeline > 1 && bytes > most_not_simple;
}

/// Lowers the plans of all ranks, so that every rank comes to the same result.
void put_on_board(Prepared& prepared, const Choice& choice) {
  const algorithms::Shape& shape = prepared.plan.shape;
  const std::vector<algorithms::Plan> plans = algorithms::plans_of_all(choice, shape);
  if (choice.entry->in_row) {
    algorithms::RowLowering made = algorithms::lower_to_row(plans);
    prepared.row = std::move(made.program);
    prepared.why_no_board = std::move(made.why_not);
    return;
  }
  algorithms::Lowering made = algorithms::lower_to_board(plans);
  prepared.why_no_board = made.why_not;
  if (made.programs.empty()) return;
  const auto rank = static_cast<std::size_t>(shape.rank);
  if (choice.entry->shared_buffers)
    if (auto windows = algorithms::lower_to_windows(made.programs, shape.root); !windows.empty())
      prepared.window = std::move(windows[rank]);
  prepared.board = std::move(made.programs[rank]);
  if (const std::size_t bytes = BoardCall::scratch_bytes(*prepared.board); bytes > 0)
    prepared.board_scratch = std::make_shared_for_overwrite<std::byte[]>(bytes);
}

std::string board_text(const Prepared& prepared) {
  if (prepared.row) return "slices pass a row of ranks on a board";
  if (!prepared.board) return fmt::format("not for a board: it {}", prepared.why_no_board);
  const std::size_t rounds = prepared.board->rounds.size();
  return fmt::format("{} round{} on a board", rounds, rounds == 1 ? "" : "s");
}

/// In debug builds the checker proves each plan before it runs. For release builds the tests have done that.
void prove([[maybe_unused]] const Choice& choice, [[maybe_unused]] int ranks, [[maybe_unused]] int root) {
#ifndef NDEBUG
  static algorithms::Proofs& proofs = *new algorithms::Proofs;  // threads may still call at the end
  proofs.require(choice, ranks, root);
#endif
}

/// The hash covers the plans of all ranks, so that ranks notice if they were given different plans of one name.
std::unique_ptr<const Prepared> build_given(const algorithms::GivenPlans& given, int rank) {
  auto prepared =
      make_ready(given.plans[static_cast<std::size_t>(rank)], given.name, algorithm_hash(write_plans(given)));
  prepared->copies_sends = given.needs_room;
  prepared->reads_copied_blocks = reads_copied_blocks(prepared->plan, false);
  prepared->why_no_board = "was given";
  return prepared;
}

/// "ring" or "all_reduce:ring;broadcast:tree" -> algorithm by collective; "" stands for every collective.
std::map<std::string, std::string, std::less<>> parse_defaults(std::string_view text) {
  std::map<std::string, std::string, std::less<>> result;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (item.empty()) continue;
    const auto colon = item.find(':');
    const std::string collective{item.substr(0, colon == std::string_view::npos ? 0 : colon)};
    const bool named = !collective.empty() && collective.find_first_of("0123456789*") == std::string::npos &&
                       colon + 1 < item.size() && (item[colon + 1] < '0' || item[colon + 1] > '9');
    // "tree:4" is an algorithm with a radix, "reduce:tree:4" names a collective first.
    const std::string_view algorithm = named ? item.substr(colon + 1) : item;
    if (named) algorithms::find(algorithms::find_collective(collective), algorithm);
    const auto [known, is_first] = result.try_emplace(named ? collective : "", algorithm);
    if (!is_first)
      throw Error{ErrorCode::invalid_argument,
                  fmt::format("{} has two algorithms, {} and {}: give it one", named ? collective : "every collective",
                              known->second, algorithm)};
  }
  return result;
}

/// Throws if no collective has the algorithm `name`: the error of the most likely collective.
void require_known(const std::string& name) {
  for (int i = 0; i < collective_count; ++i) {
    try {
      algorithms::find(static_cast<Collective>(i), name);
      return;
    } catch (const Error&) {
      continue;
    }
  }
  algorithms::find(Collective::all_reduce, name);
}

}  // namespace

Planner::Planner(Settings settings)
    : settings_(std::move(settings)), default_by_collective_(parse_defaults(settings_.default_algorithms)) {
  const auto everywhere = default_by_collective_.find("");
  if (everywhere != default_by_collective_.end()) require_known(everywhere->second);
}

bool Planner::has_default(const Wish& wish) const {
  return default_by_collective_.contains(tutti::name_of(wish.collective)) || default_by_collective_.contains("") ||
         wants_given(wish);
}

/// Why the given plan cannot serve this call; empty if it can.
std::string Planner::why_not_given(const Wish& wish) const {
  const algorithms::GivenPlans& given = *settings_.given;
  const algorithms::Shape& shape = given.plans.front().shape;
  if (shape.ranks != settings_.ranks) return fmt::format("it is for {} ranks, not {}", shape.ranks, settings_.ranks);
  if (is_rooted(given.collective) && shape.root != wish.root)
    return fmt::format("it is for root {}, not {}", shape.root, wish.root);
  if (given.equal_parts && !wish.equal_parts) return "it needs parts of equal size, and this is a _v call";
  if (settings_.deterministic && is_reduction(given.collective) && !given.rank_order)
    return "the option deterministic needs one that reduces in rank order";
  return {};
}

/// Whether the call uses the given plan: because it names it, or because it names no algorithm and the plan can serve
/// it.
bool Planner::wants_given(const Wish& wish) const {
  if (!settings_.given || settings_.given->collective != wish.collective) return false;
  const bool named = wish.algorithm == settings_.given->name;
  if (!named && !wish.algorithm.empty()) return false;
  const std::string why_not = why_not_given(wish);
  if (named && !why_not.empty())
    throw Error{ErrorCode::unsupported, fmt::format("{} cannot use the plan {} here: {}",
                                                    tutti::name_of(wish.collective), wish.algorithm, why_not)};
  return why_not.empty();
}

std::string Planner::name_of_choice(const Wish& wish) const {
  return wants_given(wish) ? settings_.given->name : to_string(choose(wish));
}

Choice Planner::choose(const Wish& wish) const {
  std::string_view name = wish.algorithm;
  bool optional = false;
  if (name.empty()) {
    auto found = default_by_collective_.find(tutti::name_of(wish.collective));
    if (found == default_by_collective_.end()) {
      found = default_by_collective_.find("");
      optional = true;
    }
    if (found != default_by_collective_.end()) name = found->second;
  }
  if (!name.empty()) {
    try {
      const Choice choice = algorithms::find(wish.collective, name);
      const bool fits = (wish.equal_parts || !choice.entry->equal_parts) &&
                        (!settings_.deterministic || !is_reduction(wish.collective) || choice.entry->rank_order);
      if (fits && suits(choice, settings_.ranks)) return choice;
      if (!optional && fits)
        throw Error{ErrorCode::unsupported,
                    fmt::format("{} cannot use the algorithm {} here: its domains have {} ranks, not {}",
                                tutti::name_of(wish.collective), name, choice.domains.size(), settings_.ranks)};
      if (!optional)
        throw Error{
            ErrorCode::unsupported,
            fmt::format("{} cannot use the algorithm {} here: {}", tutti::name_of(wish.collective), name,
                        settings_.deterministic && is_reduction(wish.collective) && !choice.entry->rank_order
                            ? "the option deterministic needs one that reduces in rank order (see tutti plan --list)"
                            : "it needs parts of equal size, and this is a _v call")};
    } catch (const Error&) {
      if (!optional) throw;
    }
  }
  return settings_.table->select(situation_of(wish));
}

algorithms::Situation Planner::situation_of(const Wish& wish) const {
  return {.collective = wish.collective,
          .ranks = settings_.ranks,
          .bytes = wish.bytes,
          .transport = settings_.transport,
          .oversubscribed = settings_.oversubscribed,
          .equal_parts = wish.equal_parts,
          .rank_order = settings_.deterministic && is_reduction(wish.collective),
          .boards = settings_.boards,
          .ranks_on_each_host = settings_.ranks_on_each_host,
          .domains = settings_.domains};
}

bool Planner::stages(const Wish& wish) const {
  return wish.algorithm.empty() && !has_default(wish) && settings_.table->stages(situation_of(wish));
}

void Planner::tell(const Wish& wish, const Prepared& prepared, bool is_new) const {
  if (settings_.log->shows(Log::Level::info, Log::Subsystem::tune))
    settings_.log->info(Log::Subsystem::tune,
                        fmt::format("{} of {} bytes over {} among {} ranks: {}{}", tutti::name_of(wish.collective),
                                    wish.bytes, settings_.transport, settings_.ranks, prepared.name,
                                    wish.algorithm.empty() ? "" : ", as the call says"));
  if (is_new && settings_.log->shows(Log::Level::info, Log::Subsystem::algo))
    settings_.log->info(Log::Subsystem::algo, fmt::format("{} with {}: {} steps on {} lanes, {} scratch slots here; {}",
                                                          tutti::name_of(wish.collective), prepared.name,
                                                          prepared.plan.steps.size(), prepared.plan.lanes.size(),
                                                          prepared.plan.scratch_like.size(), board_text(prepared)));
}

const Prepared* Planner::find_built(const Wish& wish, bool& is_new) {
  if (wants_given(wish)) {
    is_new = !given_;
    if (is_new) given_ = build_given(*settings_.given, settings_.rank);
    return given_.get();
  }
  const Choice choice = algorithms::settled(choose(wish), settings_.ranks, wish.bytes);
  const bool is_long = is_too_long_for_board(choice, wish.bytes);
  auto& plan = plans_[{choice.entry, wish.root, choice.pipeline, choice.radix, choice.domains, is_long}];
  is_new = !plan;
  if (is_new) prove(choice, settings_.ranks, wish.root);
  if (is_new) plan = build(choice, wish.root, is_long);
  return plan.get();
}

std::unique_ptr<const Prepared> Planner::build(const Choice& choice, int root, bool is_long) const {
  const std::string name = to_string(choice);
  auto prepared = make_ready(choice.entry->build(shape_of(choice, settings_.rank, settings_.ranks, root)), name,
                             algorithm_hash(name));
  prepared->reads_copied_blocks = reads_copied_blocks(prepared->plan, true);
  if (!settings_.boards) {
    prepared->why_no_board = "has none here";
  } else if (!choice.entry->mesh && !choice.entry->in_row && choice.domains.empty()) {
    prepared->why_no_board = "passes data on from rank to rank";
  } else if (is_long) {
    prepared->why_no_board = "sums a long vector slice by slice";
  } else {
    put_on_board(*prepared, choice);
  }
  return prepared;
}

const Prepared& Planner::prepare_stand_in(const std::string& of) {
  std::unique_ptr<const Prepared>& made = stand_ins_[of];
  if (!made) {
    auto barrier = std::make_unique<Prepared>(prepare({.collective = Collective::barrier}));
    barrier->name = of;
    barrier->label = black_box::label_of(of);
    barrier->hash = algorithm_hash(of);
    made = std::move(barrier);
  }
  return *made;
}

const Prepared& Planner::prepare(const Wish& wish) {
  const std::uint64_t key = key_of(wish);
  if (const auto found = remembered_.find(key); found != remembered_.end()) {
    const Remembered& last = found->second;
    if (last.wish.collective == wish.collective && last.wish.bytes == wish.bytes && last.wish.root == wish.root &&
        last.wish.equal_parts == wish.equal_parts && last.algorithm == wish.algorithm)
      return *last.prepared;
  }
  bool is_new = false;
  const Prepared* const plan = find_built(wish, is_new);
  if (settings_.log) tell(wish, *plan, is_new);
  if (remembered_.size() >= most_remembered_plans) remembered_.clear();
  remembered_[key] = {wish, std::string{wish.algorithm}, plan};
  return *plan;
}

}  // namespace tutti::detail
