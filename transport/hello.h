#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/security/handshake.h"
#include "transport/frame.h"
#include "transport/transport.h"
#include "tutti/error.h"

namespace tutti::transport {

/// Equal on all ranks of a job and unknown outside of it. Only for connections that cannot leave the host.
inline constexpr std::size_t job_token_size = 16;
using JobToken = std::array<std::byte, job_token_size>;

/// The first bytes on every Unix socket: the sender, and the link or memory that it passes. (On TCP:
/// lib/security/handshake.h.)
inline constexpr std::size_t hello_size = 44;
inline constexpr std::uint32_t hello_magic = 0x49545554;  // "TUTI"
using HelloBytes = std::array<std::byte, hello_size>;

HelloBytes encode(const Hello& hello, const JobToken& token);
/// Nothing if magic, version or token are wrong. Takes equally long for every wrong token.
std::optional<Hello> decode_hello(std::span<const std::byte, hello_size> bytes, const JobToken& token);

/// Longer reasons are truncated, so that the reader's memory is bounded.
inline constexpr std::size_t max_reason = 4096;

/// The header of the message that tells a peer why this rank gives up; its payload is `reason_text(reason)`.
Frame abort_frame(const Error& reason);
std::string_view reason_text(const Error& reason);
/// Header and text in one piece.
std::vector<std::byte> abort_message(const Error& reason);
/// The Error that a peer sent in an abort message.
Error told_by(const Frame& frame, std::span<const std::byte> text);

}  // namespace tutti::transport
