// The messages of a link that carry no data: the hello at its start, and the reason of its end.

#include "transport/hello.h"

#include <algorithm>
#include <string>

#include "lib/base/internals.h"
#include "lib/base/little_endian.h"

namespace tutti::transport {

HelloBytes encode(const Hello& hello, const JobToken& token) {
  HelloBytes bytes;
  std::byte* at = bytes.data();
  at = put(at, hello_magic);
  at = put(at, std::uint32_t{protocol_version});
  at = std::copy(token.begin(), token.end(), at);
  at = put(at, static_cast<std::uint32_t>(hello.from));
  at = put(at, static_cast<std::uint32_t>(hello.to));
  at = put(at, hello.channel);
  put(at, static_cast<std::uint32_t>(hello.purpose));
  return bytes;
}

std::optional<Hello> decode_hello(std::span<const std::byte, hello_size> bytes, const JobToken& token) {
  const std::byte* at = bytes.data();
  if (get<std::uint32_t>(at) != hello_magic || get<std::uint32_t>(at) != protocol_version) return std::nullopt;
  std::byte difference{0};
  for (const std::byte expected : token) difference |= *at++ ^ expected;
  if (difference != std::byte{0}) return std::nullopt;

  Hello hello;
  hello.from = static_cast<std::int32_t>(get<std::uint32_t>(at));
  hello.to = static_cast<std::int32_t>(get<std::uint32_t>(at));
  hello.channel = get<std::uint64_t>(at);
  const auto purpose = get<std::uint32_t>(at);
  if (purpose != static_cast<std::uint32_t>(Purpose::link) && purpose != static_cast<std::uint32_t>(Purpose::board) &&
      purpose != static_cast<std::uint32_t>(Purpose::pool))
    return std::nullopt;
  hello.purpose = static_cast<Purpose>(purpose);
  return hello;
}

std::string_view reason_text(const Error& reason) { return std::string_view(reason.what()).substr(0, max_reason); }

Frame abort_frame(const Error& reason) {
  return {.kind = FrameKind::abort,
          .length = reason_text(reason).size(),
          .operation = static_cast<std::uint32_t>(reason.operation()),
          .error = static_cast<std::uint8_t>(reason.code()),
          .culprit = reason.rank()};
}

std::vector<std::byte> abort_message(const Error& reason) {
  const FrameBytes header = encode(abort_frame(reason));
  const auto text = std::as_bytes(std::span(reason_text(reason)));
  std::vector<std::byte> message(header.size() + text.size());
  std::ranges::copy(text, std::ranges::copy(header, message.begin()).out);
  return message;
}

Error told_by(const Frame& frame, std::span<const std::byte> text) {
  const bool known = frame.error < error_code_count;
  const auto code = known ? static_cast<ErrorCode>(frame.error) : ErrorCode::peer_lost;
  Error error(code, std::string(reinterpret_cast<const char*>(text.data()), text.size()), frame.culprit,
              frame.operation);
  detail::Internals::set_details(error, {.reported = true});
  return error;
}

}  // namespace tutti::transport
