#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "lib/api/communicator_state.h"

namespace tutti::testing {

/// A receive of `value` from rank 0, which is not submitted yet. Nobody waits for it and it is not asynchronous, so
/// nobody owns the engine for it.
inline detail::Message& make_receive(detail::CommunicatorState& state, int& value, int tag) {
  return state.messages.make({.kind = detail::Message::Kind::receive,
                              .bytes = std::as_writable_bytes(std::span{&value, 1}),
                              .count = 1,
                              .type = DataType::i32,
                              .peer = 0,
                              .tag = tag,
                              .timeout = std::chrono::seconds{60}});
}

}  // namespace tutti::testing
