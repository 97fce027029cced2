#include "lib/collective/collectives.h"

#include <utility>

#include "lib/board/board_collectives.h"
#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {
namespace {

/// Smaller calls do not use windows: then they take one trip instead of two.
constexpr std::size_t least_in_window = 16 * 1024;

}  // namespace

Collectives::Collectives(Group& group, transport::Channel channel, Planner planner)
    : group_(group),
      planner_(std::move(planner)),
      pool_(std::make_shared<Pool<Operation>>()),
      history_(group),
      link_queues_(*this, group, channel) {
  transport::Transport* const shared = group_.boards();
  if (!shared) return;
  board_ = std::make_unique<BoardCollectives>(*this, group_, *shared, channel, group_.context().board_limit);
  inline_calls_.emplace(*this, group_, *board_, link_queues_, history_);
}

Collectives::~Collectives() = default;

Planner::Wish Collectives::wish_of(const Request& request, int ranks) {
  const CollectiveTraits& traits = traits_of(request.collective);
  const auto all = static_cast<std::size_t>(ranks);
  std::size_t bytes = part_count(request, all) * (traits.has_parts() ? all : 1) * size_of(type_of(request));
  if (request.variable) {
    bytes = 0;
    if (!traits.exchanges())  // where ranks know different counts
      for (const std::size_t count : request.counts) bytes += count * size_of(request.input.type);
  }
  return {.collective = request.collective,
          .algorithm = request.algorithm,
          .bytes = bytes,
          .root = request.root,
          .equal_parts = !request.variable};
}

/// Must give the same answer on all ranks.
Planned Collectives::plan(const Request& request) {
  const CollectiveTraits& traits = traits_of(request.collective);
  const auto ranks = static_cast<std::size_t>(group_.size());
  const Planner::Wish wish = wish_of(request, group_.size());
  const bool sizes_differ = request.variable && traits.exchanges();
  const bool one_part = !request.variable && traits.gathers();
  const std::lock_guard lock{planning_};
  if (auto in_window = plan_in_window(request, wish)) return *in_window;
  const Prepared& prepared = planner_.prepare(wish);
  // On a board only a fold of all contributions makes an average.
  const bool sums_partly = prepared.board && prepared.board->by_domains;
  const bool on_board =
      board_ && !sizes_differ && !(sums_partly && request.op && request.op->kind() == OpKind::avg) &&
      board_->serves(prepared, request.collective, wish.bytes, one_part ? wish.bytes / ranks : wish.bytes);
  return {prepared, on_board, {}};
}

/// The plan for buffers in allocated memory, unless another algorithm is asked for.
std::optional<Planned> Collectives::plan_in_window(const Request& request, Planner::Wish wish) {
  if (!board_ || windows_->empty() || wish.bytes < least_in_window) return std::nullopt;
  const algorithms::Entry* const entry = algorithms::find_for_shared_buffers(request.collective);
  const bool is_free = wish.algorithm.empty() && !planner_.has_default(wish);
  if (!entry || (!is_free && wish.algorithm != entry->name)) return std::nullopt;
  wish.algorithm = entry->name;
  const Prepared& prepared = planner_.prepare(wish);
  if (!prepared.window) return std::nullopt;
  const WindowLocation location =
      windows_->location_of(request, prepared.window->shares_input, prepared.window->shares_output);
  if (!location.given()) return std::nullopt;
  return Planned{prepared, true, location};
}

std::string Collectives::algorithm_of(const Request& request) {
  const Planner::Wish wish = wish_of(request, group_.size());
  const std::lock_guard lock{planning_};
  const std::optional<Planned> in_window = plan_in_window(request, wish);
  return in_window ? in_window->prepared.name : planner_.name_of_choice(wish);
}

std::size_t Collectives::board_capacity() const { return board_ ? board_->capacity() : 0; }

Operation& Collectives::make(const Request& request, const Planned& planned,
                             const std::shared_ptr<Pool<Operation>>& pool) {
  auto operation = pool->take();
  if (!operation) operation = std::make_unique<Operation>(group_.context().engine);
  operation->prepare(*this, group_, planned, request, made_.load(std::memory_order_relaxed) + 1, pool,
                     planned.on_board ? board_capacity() : 0);
  made_.fetch_add(1, std::memory_order_relaxed);
  return *operation.release();
}

Operation& Collectives::make_stand_in(const Request& request, const std::string& name, PartOffsets counts,
                                      std::shared_ptr<const StreamPart> stream, std::uint32_t window) {
  const Request barrier{.collective = Collective::barrier, .input = {}, .output = {}, .timeout = request.timeout};
  const Planned planned = [&] {
    const std::lock_guard lock{planning_};
    const Prepared& prepared = planner_.prepare_stand_in(name);
    return Planned{prepared, board_ && board_->serves(prepared, Collective::barrier, 0, 0), {}};
  }();
  Operation& operation = make(barrier, planned, pool_);
  operation.stand_for(call_of(request, group_.size(), planned.prepared.hash ^ window, 0), std::move(counts),
                      std::move(stream));
  return operation;
}

// ---- Owner of the engine ---------------------------------------------------------------------------------------

bool Collectives::start(Operation& operation) noexcept {
  operation.slot = running_.add(operation);
  if (!operation.has_begun()) {
    const std::uint64_t before = history_.hash();
    history_.begin(transport::call_words_of(operation.frame()), operation.prepared(), operation.is_in_window(),
                   operation.whole());
    operation.set_number(history_.last_number());
    if (operation.frame().variable)
      history_.note_counts(operation.frame(), operation.number(), operation.bound().offsets());
    operation.set_history(before);
  }
  if (group_.failing()) {
    operation.fail(*group_.failure());
    return false;
  }
  if (!operation.board()) link_queues_.queue(operation);
  return true;
}

void Collectives::start_on_board(Operation& operation) noexcept {
  const auto& posts = operation.set_posts(history_.call(operation.number() - 1));
  board_->start({operation.board(), &posts.call, &posts.before, history_.hash(), &operation});
}

void Collectives::ended(Operation& operation) noexcept {
  history_.end(operation.number());
  running_.remove(operation.slot);
  if (is_exchange_of_counts(operation.frame())) look_for_leftovers(operation);
}

bool Collectives::knows(int rank) const noexcept { return group_.group_rank(rank) >= 0; }

void Collectives::sent(transport::Link& to, transport::Token token) noexcept {
  if (group_.failing()) return;
  link_queues_.sent(to);
  running_.find(token >> 32)->complete(static_cast<std::uint32_t>(token));
}

}  // namespace tutti::detail
