#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/message/message.h"
#include "tutti/types.h"

namespace tutti::detail {

/// What is known of a message before its payload arrives.
struct Envelope {
  int source = -1;
  int tag = 0;
  DataType type{};
  std::size_t length = 0;   ///< of the whole message, in bytes
  std::uint64_t order = 0;  ///< its number among the messages from its sender to this rank

  /// The status for a receive or probe whose elements consist of `unit` elements of the message.
  MessageStatus status(std::size_t unit) const { return {source, tag, length / size_of(type) / unit}; }
  bool fits(const MessageCall& receive) const {
    return receive.type == type && length <= receive.bytes.size() &&
           (receive.unit == 1 || length % (receive.unit * size_of(receive.type)) == 0);
  }
};

}  // namespace tutti::detail
