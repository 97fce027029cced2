#include "lib/security/secret.h"

#include <fcntl.h>
#define OPENSSL_SUPPRESS_DEPRECATED  // SHA256_Init() and its kin
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/refuse.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::string_view mounted_remedy =
    "If it is a mounted Kubernetes Secret, set defaultMode: 0400 in its volume, and fsGroup in the pod's "
    "securityContext if the program does not run as root; if a Docker secret, set its mode to 0400 and its uid";

bool is_one_of_our_groups(gid_t group) {
  if (group == ::getegid()) return true;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  return std::ranges::find(groups, group) != groups.end();
}

/// The file must be ours and closed to all others. It may also be root's, who can read everything anyway, and readable
/// by one of our groups: secrets are mounted into containers in that way.
void check_access(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) refuse("the secret file " + path + " is no regular file");
  constexpr uid_t root = 0;
  if (status.st_uid != ::geteuid() && status.st_uid != root)
    refuse("the secret file " + path + " belongs to user " + std::to_string(status.st_uid) + ", not to this one (" +
           std::to_string(::geteuid()) + "): copy it to a file of your own");
  mode_t forbidden = S_IRWXG | S_IRWXO;
  if (status.st_uid == root && is_one_of_our_groups(status.st_gid)) forbidden &= ~static_cast<mode_t>(S_IRGRP);
  if ((status.st_mode & forbidden) != 0)
    refuse("the secret file " + path + " can be opened by other users: chmod 600 " + path + ". " +
           std::string{mounted_remedy});
}

}  // namespace

Secret::~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

Secret Secret::random() {
  Digest bytes;
  if (!fill_with_random(bytes))
    throw Error{ErrorCode::system, std::string{"cannot get random bytes: "} + std::strerror(errno)};
  std::array<std::byte, 2 * digest_size> digits;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    constexpr std::string_view names = "0123456789abcdef";
    digits[2 * i] = static_cast<std::byte>(names[std::to_integer<std::size_t>(bytes[i] >> 4)]);
    digits[2 * i + 1] = static_cast<std::byte>(names[std::to_integer<std::size_t>(bytes[i] & std::byte{15})]);
  }
  Secret secret{digits};
  OPENSSL_cleanse(bytes.data(), bytes.size());
  OPENSSL_cleanse(digits.data(), digits.size());
  return secret;
}

Secret Secret::from_text(std::string_view text, std::string_view said_by) {
  if (text.size() < least_bytes || text.size() > most_bytes)
    refuse(std::string{said_by} + " has " + std::to_string(text.size()) + " characters; a secret has " +
           std::to_string(least_bytes) + " to " + std::to_string(most_bytes) + ". `openssl rand -hex 32` makes one");
  return Secret{std::as_bytes(std::span{text})};
}

Secret Secret::from_file(const std::string& path) {
  // Non-blocking, so that a pipe without a writer does not block us.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0)
    refuse("cannot open the secret file " + path + ": " + std::strerror(errno) +
           (errno == EACCES ? ". " + std::string{mounted_remedy} : ""));
  check_access(path, status);
  std::array<char, most_bytes + 3> text;  // enough to detect a text that is too long
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse("cannot read the secret file " + path + ": " + std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  struct Wipe {
    std::array<char, most_bytes + 3>& text;
    ~Wipe() { OPENSSL_cleanse(text.data(), text.size()); }
  } const wipe{text};
  std::string_view content{text.data(), size};
  if (content.ends_with('\n')) content.remove_suffix(1);
  if (content.ends_with('\r')) content.remove_suffix(1);
  return from_text(content, "the secret file " + path);
}

std::string Secret::reveal() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

Secret Secret::derive(std::string_view label, std::span<const std::byte> context) const {
  constexpr std::byte end{0};
  Digest digest = hmac_sha256(bytes_, {std::as_bytes(std::span{label}), {&end, 1}, context});
  Secret derived{digest};
  OPENSSL_cleanse(digest.data(), digest.size());
  return derived;
}

namespace {

/// Calls SHA-256 directly. EVP would give the same result, but first loads providers and tables of names, which takes
/// 0.9 of the 7 ms that a rank needs to start. EVP also makes objects that exit() destroys while threads still use
/// them.
class Sha256 {
 public:
  Sha256() noexcept { ::SHA256_Init(&context_); }
  ~Sha256() { OPENSSL_cleanse(&context_, sizeof context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& add(std::span<const std::byte> bytes) noexcept {
    ::SHA256_Update(&context_, bytes.data(), bytes.size());
    return *this;
  }
  Digest digest() noexcept {
    Digest digest;
    ::SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context_);
    return digest;
  }

 private:
  SHA256_CTX context_;
};

}  // namespace

// RFC 2104.
Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) noexcept {
  std::array<std::byte, SHA256_CBLOCK> block{};
  if (key.size() <= block.size()) {
    std::copy(key.begin(), key.end(), block.begin());
  } else {
    Digest short_key = Sha256{}.add(key).digest();
    std::copy(short_key.begin(), short_key.end(), block.begin());
    OPENSSL_cleanse(short_key.data(), short_key.size());
  }
  const auto blend = [&block](std::uint8_t pad) {
    for (std::byte& byte : block) byte ^= std::byte{pad};
  };
  constexpr std::uint8_t inner_pad = 0x36, outer_pad = 0x5c;
  blend(inner_pad);
  Sha256 inner;
  inner.add(block);
  for (const auto part : parts) inner.add(part);
  blend(inner_pad ^ outer_pad);
  const Digest digest = Sha256{}.add(block).add(inner.digest()).digest();
  OPENSSL_cleanse(block.data(), block.size());
  return digest;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool fill_with_random(std::span<std::byte> bytes) noexcept { return ::getentropy(bytes.data(), bytes.size()) == 0; }

}  // namespace tutti
