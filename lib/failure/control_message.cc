// All messages have the same fields in the same order; the kind says which groups of fields are present. Integers are
// little-endian. A text is a u16 length and its bytes, a list a u16 length and its numbers.

#include "lib/failure/control_message.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace tutti::detail {
namespace {

constexpr std::size_t max_text = 4096;

class Writer {
 public:
  template <class Integer>
  void number(Integer value) {
    auto bits = static_cast<std::make_unsigned_t<Integer>>(value);
    for (std::size_t i = 0; i < sizeof bits; ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i) & 0xff));
  }
  void text(std::string_view value) {
    value = value.substr(0, max_text);
    number(static_cast<std::uint16_t>(value.size()));
    bytes_ += value;
  }
  template <class Integer>
  void list(const std::vector<Integer>& values) {
    const std::size_t size = std::min(values.size(), most_listed);
    number(static_cast<std::uint16_t>(size));
    for (std::size_t i = 0; i < size; ++i) number(values[i]);
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

/// After the first missing field all others are missing, too: ask good() at the end.
class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : rest_(bytes.data(), bytes.size()) {}

  template <class Integer>
  void number(Integer& value) {
    std::uint64_t bits = 0;
    const std::string_view field = take(sizeof(Integer));
    for (std::size_t i = 0; i < field.size(); ++i)
      bits |= std::uint64_t{static_cast<unsigned char>(field[i])} << (8 * i);
    value = static_cast<Integer>(bits);
  }
  template <class Enum>
  void choice(Enum& value, Enum last) {
    std::uint8_t bits = 0;
    number(bits);
    good_ = good_ && bits <= static_cast<std::uint8_t>(last);
    value = static_cast<Enum>(bits);
  }
  void text(std::string& value) {
    std::uint16_t size = 0;
    number(size);
    value = take(size);
  }
  template <class Integer>
  void list(std::vector<Integer>& values) {
    std::uint16_t size = 0;
    number(size);
    if (rest_.size() < size * sizeof(Integer)) good_ = false;
    values.resize(good_ ? size : 0);
    for (Integer& value : values) number(value);
  }
  bool good() const { return good_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    good_ = good_ && size <= rest_.size();
    if (!good_) return {};
    const std::string_view field = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
  bool good_ = true;
};

void put(Writer& to, const Failure& failure) {
  to.number(failure.group);
  to.number(static_cast<std::uint8_t>(failure.code));
  to.number(static_cast<std::int32_t>(failure.culprit));
  to.number(failure.operation);
  to.text(failure.text);
}

void get(Reader& from, Failure& failure) {
  std::int32_t culprit = 0;
  from.number(failure.group);
  from.choice(failure.code, ErrorCode{error_code_count - 1});
  from.number(culprit);
  from.number(failure.operation);
  from.text(failure.text);
  failure.culprit = culprit;
}

void put(Writer& to, const Report& report) {
  to.number(report.group);
  to.number(report.operation);
  to.number(static_cast<std::uint8_t>(report.overdue));
  to.number(static_cast<std::uint8_t>(report.stalled));
  to.number(static_cast<std::int32_t>(report.reporter));
  to.number(static_cast<std::int32_t>(report.peer));
  to.text(report.call);
  to.list(report.members);
  to.list(report.groups);
  to.number(static_cast<std::uint8_t>(report.lists_all && report.groups.size() <= most_listed));
}

void get(Reader& from, Report& report) {
  std::uint8_t overdue = 0;
  std::uint8_t stalled = 0;
  std::uint8_t lists_all = 0;
  from.number(report.group);
  from.number(report.operation);
  from.number(overdue);
  from.number(stalled);
  std::int32_t rank = 0;
  from.number(rank);
  report.reporter = rank;
  from.number(rank);
  report.peer = rank;
  from.text(report.call);
  from.list(report.members);
  from.list(report.groups);
  from.number(lists_all);
  report.lists_all = lists_all != 0;
  report.overdue = overdue != 0;
  report.stalled = stalled != 0;
}

void put(Writer& to, const Status& status) {
  to.number(static_cast<std::uint8_t>(status.presence));
  to.number(status.started);
  to.number(status.finished);
  to.text(status.call);
  to.number(static_cast<std::uint8_t>(status.wait));
  to.number(static_cast<std::uint8_t>(status.asynchronous));
  to.text(status.doing);
  to.text(status.unclaimed);
  to.list(status.awaited);
  to.list(status.unread);
  to.number(status.steps_done);
  to.number(status.steps);
  to.number(static_cast<std::uint8_t>((status.in_rounds ? 1 : 0) | (status.on_stream ? 2 : 0)));
  to.list(status.sends);
  to.list(status.receives);
  to.number(status.other_group);
  to.list(status.other_members);
}

void get(Reader& from, Status& status) {
  from.choice(status.presence, Status::Presence::closed);
  from.number(status.started);
  from.number(status.finished);
  from.text(status.call);
  std::uint8_t asynchronous = 0;
  from.choice(status.wait, Status::Wait::other);
  from.number(asynchronous);
  status.asynchronous = asynchronous != 0;
  from.text(status.doing);
  from.text(status.unclaimed);
  from.list(status.awaited);
  from.list(status.unread);
  from.number(status.steps_done);
  from.number(status.steps);
  std::uint8_t kind_of_steps = 0;
  from.number(kind_of_steps);
  status.in_rounds = (kind_of_steps & 1) != 0;
  status.on_stream = (kind_of_steps & 2) != 0;
  from.list(status.sends);
  from.list(status.receives);
  from.number(status.other_group);
  from.list(status.other_members);
}

/// Calls `field` for every field that messages of this kind have.
template <class SomeMessage, class Field>
void for_each_field(SomeMessage& message, Field&& field) {
  switch (message.kind) {
    case ControlMessage::Kind::beat:
    case ControlMessage::Kind::ready:
      return;
    case ControlMessage::Kind::leave:
    case ControlMessage::Kind::departed:
      return field(message.ranks);
    case ControlMessage::Kind::failure:
      return field(message.failure);
    case ControlMessage::Kind::suspicion:
      field(message.failure);
      return field(message.report);
    case ControlMessage::Kind::report:
    case ControlMessage::Kind::reunion:
      return field(message.report);
    case ControlMessage::Kind::question:
      field(message.number);
      return field(message.report);
    case ControlMessage::Kind::answer:
      field(message.number);
      return field(message.status);
    case ControlMessage::Kind::decision:
      field(message.number);
      field(message.report);
      return field(message.ranks);
  }
}

}  // namespace

std::string encode(const ControlMessage& message) {
  Writer writer;
  writer.number(std::uint32_t{0});
  writer.number(static_cast<std::uint8_t>(message.kind));
  for_each_field(message, [&writer](const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::vector<int>>) {
      writer.list(field);
    } else if constexpr (std::is_integral_v<Field>) {
      writer.number(field);
    } else {
      put(writer, field);
    }
  });
  std::string bytes = std::move(writer.bytes());
  const auto length = static_cast<std::uint32_t>(bytes.size() - control_message_head);
  for (std::size_t i = 0; i < control_message_head; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

std::optional<ControlMessage> decode_control_message(std::span<const char> bytes) {
  ControlMessage message;
  Reader reader{bytes};
  reader.choice(message.kind, ControlMessage::Kind::departed);
  if (bytes.empty() ||
      static_cast<unsigned char>(bytes[0]) > static_cast<unsigned char>(ControlMessage::Kind::departed))
    return std::nullopt;
  for_each_field(message, [&reader](auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::vector<int>>) {
      reader.list(field);
    } else if constexpr (std::is_integral_v<Field>) {
      reader.number(field);
    } else {
      get(reader, field);
    }
  });
  if (!reader.good()) return std::nullopt;
  return message;
}

}  // namespace tutti::detail
