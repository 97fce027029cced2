#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

inline constexpr std::size_t digest_size = 32;
using Digest = std::array<std::byte, digest_size>;

/// Bytes that only the members of a job know.
///
/// Wiped when it is destroyed. Nothing prints it: errors and logs name its source instead. Threading: a value; const
/// use from any thread.
class Secret {
 public:
  /// An attacker who has read one handshake can try words offline, so secrets must not be words.
  static constexpr std::size_t least_bytes = 16;
  static constexpr std::size_t most_bytes = 4096;

  /// None: no proof is needed.
  Secret() = default;
  explicit Secret(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  Secret(const Secret&) = default;
  Secret(Secret&&) noexcept = default;
  Secret& operator=(Secret other) noexcept {
    bytes_.swap(other.bytes_);  // the destructor of `other` wipes the old value
    return *this;
  }
  ~Secret();

  /// 32 bytes from the kernel, written as 64 hexadecimal digits. Throws Error{system}.
  static Secret random();
  /// A text from a person or a launcher. Throws Error{invalid_argument} that quotes `said_by`, never the text, if it is
  /// too short or too long.
  static Secret from_text(std::string_view text, std::string_view said_by);
  /// The content of a regular file that only this user may read, without the line end. Throws Error{invalid_argument}
  /// with the remedy.
  static Secret from_file(const std::string& path);

  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// For passing it to a child process; the only way to get it as text.
  std::string reveal() const;

  /// A key that reveals nothing about this one. `label` is its purpose, `context` what it is bound to.
  Secret derive(std::string_view label, std::span<const std::byte> context = {}) const;

 private:
  std::vector<std::byte> bytes_;
};

/// HMAC-SHA256 over the parts, one after the other.
Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) noexcept;

/// Takes equally long wherever the two differ.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

/// Unpredictable bytes, at most 256. False if the kernel has none.
bool fill_with_random(std::span<std::byte> bytes) noexcept;

}  // namespace tutti
