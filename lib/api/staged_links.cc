#include "lib/api/staged_links.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/group/context.h"
#include "lib/group/group.h"

namespace tutti::detail {

using namespace std::chrono_literals;
using transport::Acceptance;
using transport::Frame;
using transport::Link;

namespace {

using Area = algorithms::StreamPlace::Area;
using Kind = algorithms::StreamCommand::Kind;
using Word = transport::StreamLinks::Word;

}  // namespace

StagedLinks::StagedLinks(Group& group, Collectives& collectives, transport::StreamLinks& links,
                         transport::Channel channel)
    : group_(group),
      collectives_(collectives),
      links_(links),
      channel_(channel),
      engine_(group.context().engine),
      has_checksums_(group.context().checksum),
      to_(at(group.size())),
      from_(at(group.size())) {}

std::shared_ptr<StagedLinks> StagedLinks::open(Group& group, Collectives& collectives, transport::StreamLinks& links,
                                               transport::Channel channel) {
  const std::shared_ptr<StagedLinks> made{new StagedLinks{group, collectives, links, channel}};
  // Words are only looked at while the engine is awake.
  links.notice_signals([weak = std::weak_ptr{made}, engine = made->engine_] {
    engine->post([weak] {
      if (const auto there = weak.lock()) there->progress();
    });
  });
  made->engine_->exclusively([&] { made->engine_->attach(channel, *made); });
  return made;
}

void StagedLinks::close(bool is_drained) noexcept {
  static constexpr auto flush = 2s;
  if (!is_drained) kept_ = shared_from_this();
  links_.notice_signals({});
  engine_->exclusively([this] {
    stop();
    engine_->forget(*this);
    const std::optional<Error>& failure = group_.failure();
    engine_->detach(channel_, failure ? &*failure : nullptr, Clock::now() + flush);
  });
}

void StagedLinks::fail(Call& call) noexcept {
  stop();
  call.then = nullptr;
}

/// A failed call lets go its stream, which then writes to slots that the transport is still reading. So the transport
/// is to forget them first: a rank that has got a part of such a message gets the cause of the failure instead of the
/// rest.
void StagedLinks::stop() noexcept {
  if (std::exchange(is_stopped_, true)) return;
  if (const std::optional<Error>& failure = group_.failure()) engine_->abort_channel(channel_, *failure);
  for (ToPeer& to : to_) {
    to.waiting.clear();
    to.given.clear();
  }
}

void StagedLinks::leave() noexcept {
  engine_->exclusively([this] { has_left_ = true; });
}

// ---- Calls -----------------------------------------------------------------------------------------------------

std::vector<StagedLinks::Message> StagedLinks::messages_of(const algorithms::StreamCommands& commands,
                                                           std::size_t element) const {
  std::vector<Message> messages;
  std::vector<std::size_t> sent(to_.size()), received(from_.size());  // elements of the message that is being filled
  const auto note = [&](std::vector<std::size_t>& ends, Area area, std::span<const algorithms::StreamPlace> places,
                        std::size_t elements) {
    for (const algorithms::StreamPlace& place : places)
      if (place.area == area) ends[at(place.peer)] = std::max(ends[at(place.peer)], place.offset + elements);
  };
  for (const algorithms::StreamCommand& command : commands.all) {
    const bool is_sent = command.kind == Kind::signal_arrival;
    if (is_sent || command.kind == Kind::signal_credit) {
      std::size_t& elements = (is_sent ? sent : received)[at(command.peer)];
      if (links_.is_staged(command.peer))
        messages.push_back({command.peer, is_sent, command.value, std::exchange(elements, 0) * element});
    } else if (command.outputs > 0) {
      note(sent, Area::outgoing, commands.outputs(command), command.elements);
      note(received, Area::incoming, commands.sources(command), command.elements);
    }
  }
  return messages;
}

void StagedLinks::get_memory(const std::vector<Message>& messages) {
  for (const Message& message : messages) {
    Pinned& slots = message.is_sent ? to_[at(message.peer)].slots : from_[at(message.peer)].slots;
    if (slots.is_there) continue;
    slots.memory = PinnedMemory::take(links_.form().slots * links_.form().slot_bytes);
    const cuda::Address address = cuda::address_of(slots.memory.data());
    message.is_sent ? links_.place_outgoing(message.peer, address) : links_.place_incoming(message.peer, address);
    slots.is_there = true;
  }
}

StagedLinks::Call::Call(std::vector<Message> all)
    : messages(std::move(all)), unsent(static_cast<std::size_t>(std::ranges::count_if(messages, &Message::is_sent))) {}

void StagedLinks::begin(const std::shared_ptr<Call>& call, const Frame& frame) {
  if (is_stopped_) return;
  call->frame = frame;
  for (const Message& message : call->messages) {
    auto& queue = message.is_sent ? to_[at(message.peer)].waiting : from_[at(message.peer)].expected;
    auto& busy = message.is_sent ? sending_ : receiving_;
    queue.push_back({message, call});
    if (std::ranges::count(busy, message.peer) == 0) busy.push_back(message.peer);
  }
  if (!call->messages.empty()) engine_->poll(*this);
}

void StagedLinks::when_sent(Call& call, std::function<void()> then) {
  if (call.unsent == 0) return then();
  if (!is_stopped_) call.then = std::move(then);
}

std::span<std::byte> StagedLinks::bytes_of(const Message& message) {
  const Pinned& slots = message.is_sent ? to_[at(message.peer)].slots : from_[at(message.peer)].slots;
  const std::size_t slot = (message.number - 1) % links_.form().slots;
  return {slots.memory.data() + slot * links_.form().slot_bytes, message.bytes};
}

bool StagedLinks::progress() noexcept {
  if (is_stopped_) return false;
  bool moved = false;
  std::erase_if(sending_, [&](int peer) {
    while (send_next(peer)) moved = true;
    return to_[at(peer)].waiting.empty();
  });
  std::erase_if(receiving_, [&](int peer) {
    while (post_next(peer)) moved = true;
    return from_[at(peer)].posted == from_[at(peer)].expected.size();
  });
  return moved;
}

// ---- Messages to peers -----------------------------------------------------------------------------------------

bool StagedLinks::send_next(int peer) noexcept {
  ToPeer& to = to_[at(peer)];
  if (to.waiting.empty() || links_.value_at_peer(Word::arrived, peer) < to.waiting.front().message.number) return false;
  // Where a rank of this host has failed, streams go on without having got what they send. Looked at after the word.
  if (links_.is_worthless()) return false;
  if (!to.link) to.link = &group_.open(peer, channel_);
  const Waiting next = std::move(to.waiting.front());
  to.waiting.pop_front();
  const std::span<const std::byte> bytes = bytes_of(next.message);
  Frame frame = next.call->frame;
  frame.length = bytes.size();
  if (has_checksums_) frame.checksum = checksum_of(bytes);
  if (to.link->send(frame, bytes, transport::Token{next.message.number}))
    sent(next);
  else
    to.given.push_back(next);
  return true;
}

void StagedLinks::sent(Link& to, transport::Token) noexcept {
  std::deque<Waiting>& given = to_[at(group_.group_rank(to.peer()))].given;
  if (is_stopped_) return;
  const Waiting first = std::move(given.front());
  given.pop_front();
  sent(first);
}

void StagedLinks::sent(const Waiting& sent) noexcept {
  links_.set(Word::freed, sent.message.peer, sent.message.number);
  if (--sent.call->unsent > 0) return;
  // It keeps the operation, which keeps the call.
  if (const std::function<void()> then = std::exchange(sent.call->then, nullptr)) then();
}

// ---- Messages of peers -----------------------------------------------------------------------------------------

bool StagedLinks::post_next(int peer) noexcept {
  FromPeer& from = from_[at(peer)];
  if (from.posted == from.expected.size()) return false;
  const std::uint64_t number = from.expected[from.posted].message.number;
  if (number > links_.value_at_peer(Word::freed, peer) + links_.form().slots) return false;
  ++from.posted;
  if (from.link) from.link->resume();
  return true;
}

bool StagedLinks::knows(int rank) const noexcept { return group_.group_rank(rank) >= 0; }

Acceptance StagedLinks::arrived(Link& link, const Frame& frame) noexcept {
  const int peer = group_.group_rank(link.peer());
  FromPeer& from = from_[at(peer)];
  from.link = &link;
  if (is_stopped_ || group_.failing() || from.posted == 0) return {};
  const Waiting& expected = from.expected.front();
  Frame wanted = expected.call->frame;
  wanted.length = expected.message.bytes;
  wanted.checksum = frame.checksum;
  from.arriving.begin(frame.checksum);
  if (frame != wanted) {
    if (!group_.is_in_doubt()) group_.suspect(collectives_.mismatch(peer, frame, wanted));
    return {};
  }
  return {.kind = Acceptance::Kind::memory, .memory = bytes_of(expected.message)};
}

void StagedLinks::received(Link& link) noexcept {
  if (is_stopped_ || group_.failing()) return;
  const int peer = group_.group_rank(link.peer());
  FromPeer& from = from_[at(peer)];
  const Waiting done = std::move(from.expected.front());
  from.expected.pop_front();
  --from.posted;
  from.arriving.add(bytes_of(done.message));
  if (from.arriving.broken())
    return group_.fail(from.arriving.complaint(group_, peer, done.message.bytes, done.call->frame.operation));
  links_.set(Word::arrived, peer, done.message.number);
}

void StagedLinks::failed(Link& link, const Error& reason) noexcept {
  if (!has_left_ && !is_stopped_) group_.link_failed(link, reason);
}

}  // namespace tutti::detail
