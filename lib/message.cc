// One send or receive.

#include <fmt/format.h>

#include <utility>

#include "lib/context.h"
#include "lib/group.h"
#include "lib/messages.h"
#include "tutti/options.h"

namespace tutti::detail {

void Message::prepare(Messages& messages, Kind new_kind, std::span<std::byte> new_bytes, DataType new_type,
                      int new_peer, int new_tag, std::chrono::milliseconds timeout,
                      std::shared_ptr<Pool<Message>> pool) {
  reset();
  messages_ = &messages;
  kind = new_kind;
  bytes = new_bytes;
  type = new_type;
  peer = new_peer;
  tag = new_tag;
  stage = Stage::begun;
  timeout_ = timeout;
  pool_ = std::move(pool);
}

void Message::start() noexcept {
  const auto now = Clock::now();
  vigil_.begin(now, deadline_after(timeout_), messages_->group().context().lookout->is_watched());
  deadline = vigil_.next();
  note_start(now);
  messages_->start(*this);
}

void Message::note_start(Clock::time_point now) noexcept {
  black_box::Box* const box = messages_->group().context().black_box.get();
  flight_ = {};
  const Log& log = messages_->group().context().log;
  if (log.shows(Log::Level::trace, Log::Subsystem::p2p)) [[unlikely]]
    log.trace(Log::Subsystem::p2p, describe() + " begins");
  if (!box) return;
  black_box::Call call{.group = messages_->group().id(),
                       .count = bytes.size() / size_of(type),
                       .started = std::chrono::nanoseconds{now.time_since_epoch()}.count(),
                       .root = peer,
                       .tag = tag,
                       .collective = kind == Kind::send ? black_box::send : black_box::receive,
                       .type = static_cast<std::uint8_t>(type)};
  flight_ = box->begin(call);
}

void Message::note_end(const Error* error) noexcept {
  if (!error) flight_.progress(0, bytes.size());
  flight_.land(error);
  const Log& log = messages_->group().context().log;
  if (log.shows(Log::Level::trace, Log::Subsystem::p2p)) [[unlikely]]
    log.trace(Log::Subsystem::p2p, describe() + (error ? " fails" : " ends"));
}

void Message::expire() noexcept {
  if (messages_->group().failing()) return;
  const Vigil::Act act = vigil_.act(Clock::now());
  deadline = vigil_.next();
  if (act == Vigil::Act::give_up) return messages_->give_up(*this);
  messages_->ask(*this, act == Vigil::Act::demand);
}

std::string Message::describe() const {
  const bool send = kind == Kind::send;
  return fmt::format("{} of {} x {} {} {} (tag {})", send ? "send" : "recv", bytes.size() / size_of(type),
                     name_of(type), send ? "to" : "from",
                     peer == any_source ? "any rank" : fmt::format("rank {}", peer),
                     tag == any_tag ? "any" : std::to_string(tag));
}

void Message::recycle() noexcept {
  const auto pool = std::move(pool_);
  pool->give(std::unique_ptr<Message>{this});
}

}  // namespace tutti::detail
