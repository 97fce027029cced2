#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

// The protocol of PyTorch's TCPStore, so that each side may also be PyTorch's. A request is one byte that names the
// operation and its fields; numbers in host order; a string is its length (u64) and its bytes; a list is its length
// (u64) and its elements. One request at a time per connection, answered in order, if at all:
//
//   validate     u32 magic                     -            must come first
//   set          key, value                    -
//   compare_set  key, expected, desired        value
//   get          key                           value        empty where the key is absent
//   add          key, i64                      i64
//   check        keys                          u8           0 all there, 1 not
//   wait         keys                          u8 0         once all are there
//   key_count                                  i64
//   erase        key                           i64          1 it was there, 0 not
//   append       key, value                    -
//   multi_get    keys                          values
//   multi_set    u64, that many (key, value)   -
//   cancel_wait                                u8 1         after the 0 of the wait, if that was under way already
//   ping         u32                           u32
//   queue_push   key, value                    -
//   queue_pop    key                           i64, value  how many there were; a value only if there was one
//   queue_len    key                           i64
//   list_keys                                  i64, that many keys; or -n, since they take n bytes, too many
//   barrier      key, i64                      u8 0         once that many have come; each adds 1 to the key
//
// For a wait and a check, a queue that is not empty counts as a key that exists. A push ends the wait of one client
// only, so that it finds what was pushed. Queues came with PyTorch 2.8, list_keys and barrier in 2026.
//
// Operation bytes from 0x80 on are extensions of our own. A server that has a secret accepts nothing else until this
// one has been answered: the operation byte, then the challenge of lib/security/handshake.h with purpose `store` and
// ranks 0. Afterwards the client greets with `validate` as above.
enum class StoreOp : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  key_count,
  erase,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  queue_push,
  queue_pop,
  queue_len,
  list_keys,
  barrier,
};
inline constexpr int store_op_count = 19;
const char* name_of(StoreOp op);

inline constexpr std::byte op_authenticate{0x80};

inline constexpr std::uint32_t store_magic = 0x3C85F7CE;

inline constexpr char answer_ready = 0;
inline constexpr char answer_not_ready = 1;
inline constexpr char answer_stop_waiting = 0;
inline constexpr char answer_wait_canceled = 1;

/// Builds a request or an answer.
class StoreMessage {
 public:
  StoreMessage() = default;
  explicit StoreMessage(StoreOp op) { byte(static_cast<char>(op)); }

  StoreMessage& byte(char value) {
    bytes_.push_back(value);
    return *this;
  }
  StoreMessage& u32(std::uint32_t value) { return raw(&value, sizeof value); }
  StoreMessage& u64(std::uint64_t value) { return raw(&value, sizeof value); }
  StoreMessage& i64(std::int64_t value) { return raw(&value, sizeof value); }
  StoreMessage& text(std::string_view value) {
    u64(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  StoreMessage& raw(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }

  std::string bytes_;
};

/// A request as received by the server. `fields` are its strings in order; `number` is the delta, nonce or magic.
struct Request {
  StoreOp op = StoreOp::validate;
  std::vector<std::string> fields;
  std::int64_t number = 0;
};

/// Cuts a stream of bytes into requests. Every length is checked before anything is allocated for it, and memory grows
/// only with the bytes that have arrived.
class RequestParser {
 public:
  enum class Status : std::uint8_t { more, complete, refused };

  explicit RequestParser(std::size_t max_request_bytes) : max_request_bytes_(max_request_bytes) {}

  /// Takes bytes from the front of `bytes` up to the end of one request. After `complete`, call take(); after
  /// `refused`, the stream cannot be used further.
  Status feed(std::string_view& bytes);
  Request take();

  bool in_request() const { return state_ != State::op; }
  /// Memory in use for the request so far.
  std::size_t held_bytes() const { return held_bytes_; }

 private:
  enum class State : std::uint8_t { op, count, length, body, number };

  bool begin(char op);
  bool begin_fields(std::uint64_t count);
  bool begin_body(std::uint64_t length);
  /// True once `size` bytes lie in word_.
  bool gather(std::string_view& bytes, std::size_t size);
  std::uint64_t take_word();

  std::size_t max_request_bytes_;
  std::size_t held_bytes_ = 0;
  State state_ = State::op;
  Request request_;
  std::string word_;              // an incomplete number
  std::string_view field_kinds_;  // fields of one element: 'k' key, 'v' value
  std::size_t number_bytes_ = 0;
  std::size_t fields_left_ = 0;
  std::size_t body_left_ = 0;
};

}  // namespace tutti::rendezvous
