#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/engine/pool.h"
#include "lib/group/group_call.h"
#include "lib/observe/black_box.h"
#include "lib/observe/trace/recorder.h"
#include "tutti/types.h"

namespace tutti::detail {

class Messages;

/// A checked send or receive.
struct MessageCall {
  enum class Kind : std::uint8_t { send, receive, probe };  ///< a probe waits for a message and leaves it in place

  Kind kind = Kind::send;
  std::span<std::byte> bytes;  ///< a send only reads them
  std::size_t count = 0;       ///< of elements
  DataType type{};
  std::size_t unit = 1;  ///< elements that make one element of the caller's
  int peer = -1;         ///< group rank; any_source for some receives and probes
  int tag = 0;
  std::chrono::milliseconds timeout{};

  const char* name() const { return kind == Kind::send ? "send" : kind == Kind::receive ? "recv" : "probe"; }
  /// "send of 100 x f32 to rank 1 (tag 0)", "probe from any rank (tag 0)".
  std::string describe() const;
  /// The call for the black box.
  black_box::CallRecord recorded(std::uint64_t group) const {
    return {.group = group,
            .count = count,
            .root = peer,
            .tag = tag,
            .collective = kind == Kind::send      ? black_box::send
                          : kind == Kind::receive ? black_box::receive
                                                  : black_box::probe,
            .type = static_cast<std::uint8_t>(type)};
  }
};

/// A running send, receive or probe.
class Message final : public GroupCall, public MessageCall {
 public:
  explicit Message(std::shared_ptr<Engine> engine) : GroupCall(std::move(engine)) {}
  void prepare(Messages& messages, const MessageCall& call, std::shared_ptr<Pool<Message>> pool);
  /// Begins an inline receive: its caller looks for the message itself, until it is done or handed over to the engine.
  void begin_inline(black_box::Flight flight) noexcept;
  void hand_over() noexcept { is_inline_ = false; }
  bool is_inline() const { return is_inline_; }

  void start() noexcept override;
  /// For the black box and the log. `error`: null after success.
  void note_end(const Error* error) noexcept;
  /// For the trace: its message begins to arrive.
  void note_arrived() noexcept;

  std::uint32_t slot = 0;
  std::size_t head = 0;     ///< bytes of a large message that came with its request
  std::uint64_t order = 0;  ///< its number among the messages from its sender to its receiver; 0: not known yet
  enum class Stage : std::uint8_t { begun, asked, granted } stage = Stage::begun;  ///< of a large message

 private:
  void recycle() noexcept override;
  void waits_long(WaitEscalation::Act act) noexcept override;
  void note_start(Clock::time_point now) noexcept;
  void record(trace::Recorder& recorder, bool failed) const noexcept;

  black_box::Flight flight_;
  std::int64_t begun_ = 0;  // in ticks, for the trace
  std::int64_t arrived_ = 0;

  Messages* messages_ = nullptr;
  std::shared_ptr<Pool<Message>> pool_;
  bool is_inline_ = false;
  bool has_begun_ = false;
};

}  // namespace tutti::detail
