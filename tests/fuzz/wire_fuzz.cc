// What comes from a peer on a link, a Unix socket or the failure detector: what is understood can be said again.

#include <cstring>
#include <span>

#include "lib/failure/control_message.h"
#include "tests/fuzz/input.h"
#include "transport/frame.h"
#include "transport/hello.h"

using namespace tutti;
using namespace tutti::fuzz;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span{text}); }

void try_frame(std::string_view text) {
  transport::FrameBytes bytes{};
  std::memcpy(bytes.data(), text.data(), std::min(text.size(), bytes.size()));
  const auto frame = transport::decode(bytes);
  if (!frame) return;
  require(frame->length <= transport::max_length);
  require(transport::encode(*frame) == bytes);
  text.remove_prefix(std::min(text.size(), bytes.size()));
  const Error told = transport::told_by(*frame, bytes_of(text.substr(0, transport::max_reason)));
  require(told.what() != nullptr);
}

void try_hello(std::string_view text) {
  transport::JobToken token{};
  transport::HelloBytes bytes{};
  std::memcpy(bytes.data(), text.data(), std::min(text.size(), bytes.size()));
  const auto hello = transport::decode_hello(bytes, token);
  if (hello) require(transport::encode(*hello, token) == bytes);
}

void try_control_message(std::string_view text) {
  const auto message = detail::decode_control_message({text.data(), text.size()});
  if (!message) return;
  const std::string again = detail::encode(*message);
  require(again.size() >= detail::control_message_head &&
          again.size() <= detail::control_message_head + detail::max_control_message);
  const auto twice = detail::decode_control_message(std::span{again}.subspan(detail::control_message_head));
  require(twice.has_value());
  // What is said again may have been cut, but from then on stays as it is.
  require(detail::encode(*twice) == again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  const int kind = input.number() % 3;
  const std::string_view text = input.rest();
  if (kind == 0) try_frame(text);
  if (kind == 1) try_hello(text);
  if (kind == 2) try_control_message(text);
  return 0;
}
