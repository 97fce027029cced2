#include "rendezvous/tcp_protocol.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "rendezvous/limits.h"

namespace tutti::rendezvous {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol speaks host order, in practice little endian");

/// The fields after the operation byte.
struct Layout {
  const char* name;
  bool counted;              // a u64 gives the number of elements; otherwise there is one
  std::string_view fields;   // fields of one element
  std::size_t number_bytes;  // of the numbers after them
};

constexpr std::array<Layout, store_op_count> layouts{{
    {"validate", false, "", 4},    {"set", false, "kv", 0},      {"compare_set", false, "kvv", 0},
    {"get", false, "k", 0},        {"add", false, "k", 8},       {"check", true, "k", 0},
    {"wait", true, "k", 0},        {"key_count", false, "", 0},  {"erase", false, "k", 0},
    {"append", false, "kv", 0},    {"multi_get", true, "k", 0},  {"multi_set", true, "kv", 0},
    {"cancel_wait", false, "", 0}, {"ping", false, "", 4},       {"queue_push", false, "kv", 0},
    {"queue_pop", false, "k", 0},  {"queue_len", false, "k", 0}, {"list_keys", false, "", 0},
    {"barrier", false, "k", 8},
}};

}  // namespace

const char* name_of(StoreOp op) { return layouts[static_cast<std::size_t>(op)].name; }

RequestParser::Status RequestParser::feed(std::string_view& bytes) {
  // Each round finishes the request, takes bytes, or moves to a state that will.
  for (;;) {
    bool fine = true;
    switch (state_) {
      case State::op:
        if (bytes.empty()) return Status::more;
        fine = begin(bytes.front());
        bytes.remove_prefix(1);
        break;
      case State::count:
        if (!gather(bytes, sizeof(std::uint64_t))) return Status::more;
        fine = begin_fields(take_word());
        break;
      case State::length:
        if (fields_left_ == 0) {
          state_ = State::number;
          break;
        }
        if (!gather(bytes, sizeof(std::uint64_t))) return Status::more;
        fine = begin_body(take_word());
        break;
      case State::body: {
        const std::size_t now = std::min(body_left_, bytes.size());
        request_.fields.back() += bytes.substr(0, now);
        bytes.remove_prefix(now);
        body_left_ -= now;
        held_bytes_ += now;
        if (body_left_ > 0) return Status::more;
        --fields_left_;
        state_ = State::length;
        break;
      }
      case State::number:
        if (number_bytes_ > 0) {
          if (!gather(bytes, number_bytes_)) return Status::more;
          request_.number = static_cast<std::int64_t>(take_word());
        }
        state_ = State::op;
        return Status::complete;
    }
    if (!fine || held_bytes_ > max_request_bytes_) return Status::refused;
  }
}

Request RequestParser::take() {
  held_bytes_ = 0;
  return std::exchange(request_, {});
}

bool RequestParser::begin(char op) {
  const auto index = static_cast<unsigned char>(op);
  if (index >= layouts.size()) return false;
  const Layout& layout = layouts[index];
  request_.op = static_cast<StoreOp>(index);
  field_kinds_ = layout.fields;
  number_bytes_ = layout.number_bytes;
  fields_left_ = field_kinds_.size();
  state_ = layout.counted ? State::count : State::length;
  return true;
}

bool RequestParser::begin_fields(std::uint64_t count) {
  if (count > max_keys_per_request) return false;
  fields_left_ = static_cast<std::size_t>(count) * field_kinds_.size();
  state_ = State::length;
  return true;
}

bool RequestParser::begin_body(std::uint64_t length) {
  const char kind = field_kinds_[request_.fields.size() % field_kinds_.size()];
  if (length > (kind == 'k' ? max_key_bytes : max_value_bytes)) return false;
  request_.fields.emplace_back();
  held_bytes_ += sizeof(std::string);
  body_left_ = static_cast<std::size_t>(length);
  state_ = State::body;
  return true;
}

bool RequestParser::gather(std::string_view& bytes, std::size_t size) {
  const std::size_t now = std::min(size - word_.size(), bytes.size());
  word_ += bytes.substr(0, now);
  bytes.remove_prefix(now);
  return word_.size() == size;
}

std::uint64_t RequestParser::take_word() {
  std::uint64_t value = 0;
  std::memcpy(&value, word_.data(), word_.size());
  word_.clear();
  return value;
}

}  // namespace tutti::rendezvous
