#include "lib/collective/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/internals.h"
#include "lib/board/board_collectives.h"
#include "lib/group/context.h"
#include "lib/group/group.h"
#include "lib/observe/black_box_begin.h"

namespace tutti::detail {
namespace {

/// Below that a call in windows is done as any other: one trip there instead of two.
constexpr std::size_t least_in_window = 16 * 1024;

/// Of a Ready: work that is over long before the coarse clock ticks.
bool is_short_work(const BoardCall& call, const Op* op) {
  constexpr std::size_t most = 4096;
  return call.rounds() == 1 && call.part_bytes() <= most && !(op && op->kind() == OpKind::user);
}

/// Differs for calls that differ in anything, and for what was called before them.
std::uint64_t extended(std::uint64_t history, const transport::FrameWords& call) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15, another = 0xbf58476d1ce4e5b9;
  const auto& [kinds, number_and_root, algorithm_and_checksum, count, no_length, no_history] = call;
  std::uint64_t digest = (history ^ kinds ^ number_and_root * another) * odd;
  digest = (digest ^ digest >> 31 ^ algorithm_and_checksum * another ^ count) * odd;
  return digest ^ digest >> 29;
}

}  // namespace

using algorithms::Direction;
using algorithms::Verb;
using transport::Acceptance;
using transport::Frame;
using transport::Link;

Collectives::Collectives(Group& group, transport::Channel channel, Planner planner)
    : group_(group),
      channel_(channel),
      checksum_(group.context().checksum),
      recorder_(group.context().recorder.get()),
      planner_(std::move(planner)),
      pool_(std::make_shared<Pool<Operation>>()),
      out_(static_cast<std::size_t>(group.size())),
      in_(static_cast<std::size_t>(group.size())) {
  if (transport::Transport* const shared = group_.boards())
    board_ = std::make_unique<BoardCollectives>(*this, group_, *shared, channel_, group_.context().board_limit);
}

Collectives::~Collectives() = default;

/// What every rank must arrive at alike.
Planned Collectives::plan(const Request& request) {
  const CollectiveTraits& traits = traits_of(request.collective);
  const auto ranks = static_cast<std::size_t>(group_.size());
  std::size_t bytes = part_count(request, ranks) * (traits.has_parts() ? ranks : 1) * size_of(type_of(request));
  const bool sizes_differ = request.variable && traits.exchanges();
  if (request.variable) {
    bytes = 0;
    for (const std::size_t count : request.counts) bytes += count * size_of(request.input.type);
    if (sizes_differ) bytes = 0;
  }
  Planner::Wish wish{.collective = request.collective,
                     .algorithm = request.algorithm,
                     .bytes = bytes,
                     .root = request.root,
                     .equal_parts = !request.variable};
  const bool one_part = !request.variable && traits.gathers();
  const std::lock_guard lock{planning_};
  if (auto in_window = plan_in_window(request, wish)) return *in_window;
  const Prepared& prepared = planner_.prepare(wish);
  const bool on_board =
      board_ && !sizes_differ && board_->serves(prepared, request.collective, bytes, one_part ? bytes / ranks : bytes);
  return {prepared, on_board, {}};
}

/// If its buffers lie in allocated memory, and no other algorithm is asked for than the one for that.
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

Operation& Collectives::make(const Request& request) { return make(request, plan(request), pool_); }

Operation& Collectives::make(const Request& request, const Planned& planned,
                             const std::shared_ptr<Pool<Operation>>& pool) {
  auto operation = pool->take();
  if (!operation) operation = std::make_unique<Operation>(group_.context().engine);
  operation->prepare(*this, group_, planned, request, made_.load(std::memory_order_relaxed) + 1, pool,
                     planned.on_board ? board_->capacity() : 0);
  made_.fetch_add(1, std::memory_order_relaxed);
  return *operation.release();
}

bool Collectives::may_be_at_once(const Request& request) const {
  const Context& context = group_.context();
  return board_ && !context.injector && !request.variable &&
         !(request.op && request.op->kind() == OpKind::premul_sum) &&
         !context.log.shows(Log::Level::trace, Log::Subsystem::coll);
}

bool Collectives::run_at_once(const Request& request) {
  if (!may_be_at_once(request)) return false;
  const Planned planned = plan(request);
  if (!planned.on_board) return false;
  const Ready ready = make_ready(request, planned, pool_);
  if (!ready.board.may_be_at_once() || !group_.context().engine->try_own()) return false;
  const bool keeps = request.algorithm.empty() && (!request.op || request.op->kind() != OpKind::user);
  last_.reset();
  if (keeps) last_.emplace(ready, windows_->changes());
  last_output_.store(keeps ? hint_of(request) : nullptr, std::memory_order_relaxed);
  return run_owned(ready);
}

bool Collectives::run_again(const Request& request) {
  Engine& engine = *group_.context().engine;
  if (last_output_.load(std::memory_order_relaxed) != hint_of(request) || !engine.try_own()) return false;
  if (!last_ || !last_->is(request, windows_->changes())) {
    engine.disown();
    return false;
  }
  if (last_->ready.record.name == 0) last_->ready.record.name = black_box::new_form_name();
  return run_owned(last_->ready);
}

Collectives::Last::Last(const Ready& made, std::uint32_t changes_of_windows)
    : op(made.request.op ? *made.request.op : sum),
      request(made.request),
      windows(changes_of_windows),
      ready{request, made.planned, made.pool, made.board, made.frame, made.record, made.is_short} {
  if (request.op) request.op = &op;
}

bool Collectives::Last::is(const Request& other, std::uint32_t changes_of_windows) const noexcept {
  const auto same = [](const auto& one, const auto& another) {
    return one.data == another.data && one.count == another.count && one.type == another.type;
  };
  const bool same_op = request.op && other.op ? op.kind() == other.op->kind() : request.op == other.op;
  return request.collective == other.collective && same(request.input, other.input) &&
         same(request.output, other.output) && same_op && request.root == other.root && !other.variable &&
         other.algorithm.empty() && request.timeout == other.timeout && windows == changes_of_windows;
}

Collectives::Ready Collectives::make_ready(const Request& request, const Planned& planned,
                                           std::shared_ptr<Pool<Operation>> pool) const {
  Ready ready{request, planned, std::move(pool), {}, {}, {}, false};
  if (!planned.on_board) return ready;
  const Frame frame = call_of(request, group_.size(), planned.hash()).frame(0);
  const Prepared& prepared = planned.prepared;
  PartOffsets offsets;  // of no use: what has any is not done at once
  ready.board = BoardCall::of(request, prepared, planned.location,
                              {group_.rank(), group_.size(), *group_.context().kernels, board_->capacity()}, offsets);
  ready.frame = transport::words_of(frame);
  ready.record.words = black_box::words_of(
      recorded(frame, group_.id(), 0, prepared.label, static_cast<std::size_t>(ready.board.rounds()), false, true));
  ready.is_short = is_short_work(ready.board, request.op);
  return ready;
}

// ---- At once, by the owner of the engine, who is it no longer then ---------------------------------------------

bool Collectives::run_owned(const Ready& ready) {
  black_box::Flight flight;
  if (!may_begin_owned(ready)) return false;
  if (!do_owned(ready, flight)) go_on(ready, flight, false).wait();
  return true;
}

std::optional<Work> Collectives::begin_at_once(const Ready& ready, bool asynchronous) {
  if (!ready.planned.on_board || !ready.board.may_be_at_once()) return std::nullopt;
  if (!group_.context().engine->try_own()) return std::nullopt;
  black_box::Flight flight;
  if (!may_begin_owned(ready)) return std::nullopt;
  return do_owned(ready, flight) ? Work{} : go_on(ready, flight, asynchronous);
}

bool Collectives::may_begin_owned(const Ready& ready) {
  if (!group_.failing() && board_->is_free_for(ready.board)) [[likely]]
    return true;
  group_.context().engine->disown();
  return false;
}

/// False: the others are not there yet; it is to go on, and the engine is owned still.
bool Collectives::do_owned(const Ready& ready, black_box::Flight& flight) {
  const Context& context = group_.context();
  const transport::FrameWords& before = recent_[started_ % remembered].frame;
  ++started_;
  const transport::FrameWords& frame = note_call(ready.frame, ready.planned.prepared, ready.planned.location.given());
  const BoardCollectives::Entry entry{.call = &ready.board, .frame = &frame, .before = &before, .history = history_};
  board_->begin_at_once(entry);

  // While that is on its way to the others.
  black_box::Box* const box = context.black_box.get();
  const std::int64_t now = box ? black_box::coarse_now() : 0;
  if (box) flight = box->begin_again(ready.record, started_, now);
  if (!board_->end_at_once(entry)) return false;
  flight.land_at_once(static_cast<std::uint32_t>(ready.board.rounds()), board_->moved(),
                      ready.is_short && !board_->has_yielded() ? now : black_box::coarse_now());
  if (recorder_) [[unlikely]]
    record_at_once(ready, transport::frame_of(frame));
  // Only injected faults rely on that number, and with those nothing is done at once: the other threads' may be lost.
  made_.store(made_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  finished_ = std::max(finished_, started_);
  context.engine->disown();
  return true;
}

/// As any other call that waits.
Work Collectives::go_on(const Ready& ready, const black_box::Flight& flight, bool asynchronous) {
  const auto give_back = [](Engine* engine) { engine->disown(); };
  std::unique_ptr<Engine, decltype(give_back)> engine{group_.context().engine.get()};
  Operation* operation = nullptr;
  try {
    operation = &make(ready);
  } catch (...) {
    const Frame frame = transport::frame_of(recent_[started_ % remembered].frame);
    group_.fail(
        Error{ErrorCode::system,
              fmt::format("{} ran out of memory in the middle of {}", group_.name_of(group_.rank()), describe(frame)),
              group_.rank(), started_});
    throw;
  }
  operation->take_over(started_, flight, board_->times().begun);
  operation->asynchronous = asynchronous;
  engine.release()->submit_and_disown(*operation);
  return Internals::make<Work>(operation);
}

// ---- Turns on lanes --------------------------------------------------------------------------------------------

Fifo<Collectives::Turn>& Collectives::turns(const algorithms::Lane& lane) {
  const auto peer = static_cast<std::size_t>(lane.peer);
  return lane.direction == Direction::out ? out_[peer].turns : in_[peer].turns;
}

bool Collectives::start(Operation& operation) noexcept {
  operation.slot = running_.add(operation);
  if (!operation.has_begun()) {
    operation.set_number(++started_);
    const std::uint64_t before = history_;
    note_call(transport::words_of(operation.frame()), operation.prepared(), operation.is_in_window());
    if (operation.is_variable()) note_counts(operation);
    operation.set_history(before);
  }
  if (group_.failing()) {
    operation.fail(*group_.failure());
    return false;
  }

  if (operation.board()) return true;
  const auto& lanes = operation.plan().lanes;
  for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
    auto& queue = turns(lanes[lane]);
    queue.push({&operation, lane});
    if (queue.size() == 1) operation.lane_granted(lane);
  }
  return true;
}

const transport::FrameWords& Collectives::note_call(const transport::FrameWords& call, const Prepared& prepared,
                                                    bool in_window) {
  transport::FrameWords frame = call;
  std::uint64_t& word = frame[transport::operation_word];
  word = word >> 32 << 32 | static_cast<std::uint32_t>(started_);
  history_ = extended(history_, frame);
  Recent& recent = recent_[started_ % remembered];
  recent = {started_, frame, &prepared, in_window};
  return recent.frame;
}

void Collectives::start_on_board(Operation& operation) noexcept {
  const auto& posts = operation.set_posts(recent_[(operation.number() - 1) % remembered].frame);
  board_->start({operation.board(), &posts.call, &posts.before, history_, &operation});
}

void Collectives::lane_done(Operation& operation, std::uint32_t lane) noexcept {
  auto& queue = turns(operation.plan().lanes[lane]);
  queue.pop();
  if (!queue.empty()) queue.front().operation->lane_granted(queue.front().lane);
}

void Collectives::ended(Operation& operation) noexcept {
  finished_ = std::max(finished_, operation.number());
  running_.remove(operation.slot);
  if (is_exchange_of_counts(operation.frame())) look_for_leftovers(operation);
}

// ---- Messages --------------------------------------------------------------------------------------------------

bool Collectives::send(Operation& operation, std::uint32_t step, int peer, std::span<const std::byte> bytes) noexcept {
  OutLane& lane = out_[static_cast<std::size_t>(peer)];
  if (!lane.link) lane.link = &group_.open(peer, channel_);
  Frame frame = operation.frame();
  frame.length = bytes.size();
  if (checksum_) frame.checksum = checksum_of(bytes);
  if (operation.injector()) [[unlikely]]
    bytes = operation.injector()->tampered(operation.target(), step, bytes);
  ++lane.messages;
  if (recorder_) [[unlikely]]
    operation.note_given(step, lane.messages);
  const bool sent = lane.link->send(frame, bytes, transport::Token{operation.slot} << 32 | step);
  lane.unsent += sent ? 0 : 1;
  return sent;
}

void Collectives::post(Operation& operation, std::uint32_t step, int peer, std::span<std::byte> bytes) noexcept {
  InLane& lane = in_[static_cast<std::size_t>(peer)];
  lane.posted.push({&operation, step, bytes, 0, {}});
  if (lane.link) lane.link->resume();
}

Collectives::InLane& Collectives::in_lane(const Link& link) {
  return in_[static_cast<std::size_t>(group_.group_rank(link.peer()))];
}

bool Collectives::knows(int rank) const noexcept { return group_.group_rank(rank) >= 0; }

Acceptance Collectives::arrived(Link& from, const Frame& frame) noexcept {
  InLane& lane = in_lane(from);
  lane.link = &from;
  if (group_.failing()) return {};
  if (lane.posted.empty()) {
    notice_leftover(group_.group_rank(from.peer()), frame);
    return {};
  }
  Posted& expected = lane.posted.front();
  Frame wanted = expected.operation->frame();
  wanted.length = expected.bytes.size();
  wanted.checksum = frame.checksum;
  expected.arriving.begin(frame.checksum);
  if (frame != wanted) {
    group_.fail(mismatch(group_.group_rank(from.peer()), frame, wanted));
    return {};
  }
  if (recorder_) [[unlikely]]
    expected.operation->note_arrived(expected.step);
  if (expected.operation->plan().steps[expected.step].verb == Verb::recv_reduce)
    return {.kind = Acceptance::Kind::views};
  return {
      .kind = Acceptance::Kind::memory, .memory = expected.bytes, .copy = expected.operation->copy_of(expected.step)};
}

void Collectives::view(Link& from, std::span<const std::byte> piece) noexcept {
  if (group_.failing()) return;
  Posted& expected = in_lane(from).posted.front();
  expected.arriving.add(piece);
  expected.operation->reduce_piece(expected.step, expected.seen, piece);
  expected.seen += piece.size();
}

void Collectives::received(Link& from) noexcept {
  if (group_.failing()) return;
  InLane& lane = in_lane(from);
  Posted done = lane.posted.pop();
  ++lane.messages;
  if (done.seen == 0) done.arriving.add(done.bytes);
  if (done.arriving.broken())
    return group_.fail(
        done.arriving.complaint(group_, group_.group_rank(from.peer()), done.bytes.size(), done.operation->number()));
  if (recorder_) [[unlikely]]
    done.operation->note_received(done.step, lane.messages);
  done.operation->count_received(done.bytes.size());
  done.operation->complete(done.step);
}

void Collectives::sent(Link& to, transport::Token token) noexcept {
  if (group_.failing()) return;
  --out_[static_cast<std::size_t>(group_.group_rank(to.peer()))].unsent;
  running_.find(token >> 32)->complete(static_cast<std::uint32_t>(token));
}

}  // namespace tutti::detail
