// The transport over links made of slots: in which order links are polled, how a rank sleeps, how channels end.
//
// A pass of progress() costs one load per incoming link, plus work. Links with a backlog are in a list of their own.
// Rare events (departures, failures) set `attention_`, and the next pass then looks at all links.

#include "transport/memory/slot_transport.h"

#include <fmt/core.h>

#include <algorithm>

#include "transport/sleep.h"

namespace tutti::transport {
SlotTransport::~SlotTransport() = default;

void SlotTransport::set_peers(std::vector<std::string> addresses) { addresses_ = std::move(addresses); }

const std::string& SlotTransport::address_of(int peer) const {
  const auto index = static_cast<std::size_t>(peer);
  if (cut_)
    throw Error(ErrorCode::peer_lost, fmt::format("rank {} cannot be reached: this rank was cut off", peer), peer);
  if (peer < 0 || index >= addresses_.size() || addresses_[index].empty())
    throw Error(ErrorCode::peer_lost, fmt::format("rank {} cannot be reached by {}: it has no address", peer, name()),
                peer);
  return addresses_[index];
}

Link& SlotTransport::open(int peer, Channel channel) { return link_to(peer, channel); }

OutboundSlotLink& SlotTransport::link_to(int peer, Channel channel) {
  closed_.reopen(channel);
  auto& link = outbound_[{channel, peer}];
  if (!link) {
    link = std::make_unique<OutboundSlotLink>(static_cast<SlotHost&>(*this), peer, channel);
    backlog_.reserve(outbound_.size());
  }
  return *link;
}

std::shared_ptr<Areas> SlotTransport::areas(int peer, Channel channel) {
  auto& known = areas_[{channel, peer}];
  auto areas = known.lock();
  if (!areas) known = areas = std::make_shared<Areas>();
  return areas;
}

std::shared_ptr<CopyChoice> SlotTransport::choice(Channel channel) {
  const auto make = [&] {
    return std::make_shared<CopyChoice>(copy_policy_.single_copy, copy_policy_.cores_are_shared);
  };
  if (!copy_policy_.cores_are_shared || was_closed(channel)) return make();
  auto& known = choices_[channel];
  auto choice = known.lock();
  if (!choice) known = choice = make();
  return choice;
}

Board* SlotTransport::board(Channel channel, std::span<const int> members, BoardPart with) {
  const int ranks = static_cast<int>(members.size());
  auto known = boards_.find(channel);
  if (known == boards_.end()) {
    const std::size_t bytes = Board::bytes_for(ranks);
    auto memory = board_memory(channel, members, {.bytes = bytes, .reserved = bytes, .cleared = bytes});
    if (!memory) return nullptr;
    const int place = static_cast<int>(std::ranges::find(members, rank()) - members.begin());
    Shared shared{Board{std::move(memory), ranks, place}, {members.begin(), members.end()}};
    if (cut_) shared.board.cut();
    known = boards_.emplace(channel, std::move(shared)).first;
  }
  Board& board = known->second.board;
  if (with == BoardPart::slots && !board.has(with)) {
    auto memory = board_memory(name_of_slots(channel), members, Board::need_of_slots());
    if (!memory) return nullptr;
    board.add_slots(std::move(memory));
  }
  if (with == BoardPart::areas && !board.has(with)) {
    auto memory = board_memory(name_of_areas(channel), members, Board::need_of_areas(ranks));
    if (!memory) return nullptr;
    board.add_areas(std::move(memory));
  }
  return &board;
}

void SlotTransport::adopt(int peer, Channel channel, std::unique_ptr<RingEndpoint> endpoint) {
  if (cut_) return;
  auto between = was_closed(channel) ? std::make_shared<Areas>() : areas(peer, channel);
  if (between->has_theirs()) between = std::make_shared<Areas>();  // some of the first ring may be in use
  auto link = std::make_unique<InboundSlotLink>(peer, channel, std::move(endpoint), std::move(between), copy_policy_,
                                                choice(channel));
  if (const std::optional<Error>* const reason = closed_.find(channel))
    return *reason ? link->say_abort(**reason) : link->say_bye();
  inbound_.push_back(std::move(link));
  attention();  // the link may have been abandoned already
}

// ---- Moving ----------------------------------------------------------------------------------------------------

bool SlotTransport::progress() noexcept {
  bool moved = notice();
  // A grant that has come, upon which this rank hands over a message, does not wait until it has copied a long one: its
  // receiver waits (sendrecv of 1 MiB by single copy, 4 ranks on the 2 cores of a Zen 4: 258 us, and 177 so).
  bool has_more = false;
  for (const auto& link : inbound_) {
    moved |= link->pull_short(*sink_);
    has_more |= link->has_more();
  }
  if (has_more)
    for (const auto& link : inbound_)
      if (link->has_more()) moved |= link->pull(*sink_);
  if (!backlog_.empty()) moved |= push_backlog();
  if (attention_) moved |= attend();
  return moved;
}

void SlotTransport::backlog(OutboundSlotLink& link) noexcept {
  if (std::find(backlog_.begin(), backlog_.end(), &link) == backlog_.end()) backlog_.push_back(&link);
}

bool SlotTransport::push_backlog() noexcept {
  bool moved = false;
  for (std::size_t i = 0; i < backlog_.size(); ++i) moved |= backlog_[i]->push(sink_);  // the list may grow meanwhile
  std::erase_if(backlog_, [](const OutboundSlotLink* link) { return link->idle(); });
  return moved;
}

bool SlotTransport::attend() noexcept {
  attention_ = false;
  bool moved = false;
  for (const auto& link : inbound_) link->attend();
  for (const auto& [key, link] : outbound_) moved |= link->attend(*sink_);
  return moved;
}

// ---- Sleeping --------------------------------------------------------------------------------------------------

bool SlotTransport::prepare_sleep() noexcept {
  bool nothing_to_do = true;
  for (const auto& link : inbound_) nothing_to_do &= link->arm();
  for (OutboundSlotLink* link : backlog_) nothing_to_do &= link->arm();
  return !notice() && !attention_ && nothing_to_do;
}

void SlotTransport::awake() noexcept {
  for (const auto& link : inbound_) link->disarm();
  for (OutboundSlotLink* link : backlog_) link->disarm();
}

// ---- The end of a channel --------------------------------------------------------------------------------------

template <class Action>
void SlotTransport::for_each(Channel channel, Action&& action) noexcept {
  const auto end = outbound_.end();
  for (auto link = outbound_.lower_bound({channel, 0}); link != end && link->first.first == channel; ++link)
    action(*link->second);
  for (const auto& link : inbound_)
    if (link->channel() == channel) action(*link);
}

void SlotTransport::close_channel(Channel channel, Clock::time_point deadline) noexcept {
  flush(channel, deadline);
  if (!cut_) for_each(channel, [](auto& link) { link.say_bye(); });
  destroy(channel, nullptr);
}

void SlotTransport::abort_channel(Channel channel, const Error& reason) noexcept {
  if (!cut_) {
    abort_board(channel, reason);
    for_each(channel, [&reason](auto& link) { link.say_abort(reason); });
  }
  destroy(channel, &reason);
}

/// The rings stay, but nothing is written to them any more.
void SlotTransport::cut() noexcept {
  cut_ = true;
  for (const auto& link : inbound_) link->cut();
  for (const auto& [key, link] : outbound_) link->cut();
  for (auto& [channel, shared] : boards_) shared.board.cut();
  attention();
}

/// Peers may be closing too, so their messages are read and dropped to let them finish. No sink is told.
void SlotTransport::flush(Channel channel, Clock::time_point deadline) noexcept {
  struct Round {
    bool flushed = true;
    bool moved = false;

    void operator()(OutboundSlotLink& link) {
      moved |= link.push(nullptr);
      flushed &= link.flushed();
    }
    void operator()(InboundSlotLink& link) { moved |= link.discard(); }
  };
  struct Armed {
    bool all = true;

    void operator()(OutboundSlotLink& link) { all &= link.flushed() || link.arm(); }  // one that has failed is flushed
    void operator()(InboundSlotLink& link) { all &= link.arm(); }
  };
  const auto may_sleep = [&] {
    Armed armed;
    for_each(channel, armed);
    return !notice() && armed.all;
  };
  for (;;) {
    Round round;
    for_each(channel, round);
    if ((round.flushed && this->flushed(channel)) || Clock::now() >= deadline) return;
    // A peer whose link has just arrived may wait for this rank to read it, however much moves on other links.
    const bool noticed = notice();
    if (!noticed && !round.moved) {
      sleep_until_woken(reactor_, deadline, may_sleep);
    } else {
      reactor_.poll();
    }
    for_each(channel, [](auto& link) { link.disarm(); });
  }
}

void SlotTransport::abort_board(Channel channel, const Error& reason) noexcept {
  const auto found = boards_.find(channel);
  if (found == boards_.end()) return;
  Shared& shared = found->second;
  shared.board.say_abort(reason);
  shared.board.wake_sleepers([](int) { return true; },
                             [&](int member) { wake(shared.members[static_cast<std::size_t>(member)], channel); });
}

void SlotTransport::destroy(Channel channel, const Error* reason) noexcept {
  std::erase_if(backlog_, [=](const OutboundSlotLink* link) { return link->channel() == channel; });
  std::erase_if(outbound_, [=](const auto& entry) { return entry.first.first == channel; });
  std::erase_if(inbound_, [=](const auto& link) { return link->channel() == channel; });
  std::erase_if(areas_, [=](const auto& entry) { return entry.first.first == channel; });
  choices_.erase(channel);
  const auto shared = boards_.find(channel);
  const bool has_unused_board = shared != boards_.end() && shared->second.board.round() == 0;
  boards_.erase(channel);
  closed(channel, reason != nullptr, has_unused_board);
  closed_.close(channel, reason ? std::optional<Error>(*reason) : std::nullopt);
}

void SlotTransport::drop_links() noexcept {
  backlog_.clear();
  outbound_.clear();
  inbound_.clear();
  areas_.clear();
}

}  // namespace tutti::transport
