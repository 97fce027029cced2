#include "lib/base/secret.h"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "lib/base/descriptor.h"
#include "lib/base/fork_mark.h"
#include "tutti/error.h"

namespace tutti {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error{ErrorCode::invalid_argument, why}; }

void check_owner(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) refuse("the secret file " + path + " is no regular file");
  if (status.st_uid != ::geteuid())
    refuse("the secret file " + path + " belongs to user " + std::to_string(status.st_uid) + ", not to this one (" +
           std::to_string(::geteuid()) + "): copy it to a file of your own");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    refuse("the secret file " + path + " can be opened by other users: chmod 600 " + path);
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
  // Not blocking: a pipe must not keep us waiting for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0)
    refuse("cannot open the secret file " + path + ": " + std::strerror(errno));
  check_owner(path, status);
  std::array<char, most_bytes + 3> text;  // enough to see that it is too much
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
  auto digest = hmac_sha256(bytes_, {std::as_bytes(std::span{label}), {&end, 1}, context});
  if (!digest) throw Error{ErrorCode::system, "cannot derive a key: out of memory"};
  Secret derived{*digest};
  OPENSSL_cleanse(digest->data(), digest->size());
  return derived;
}

namespace {

/// As a rule libcrypto has itself taken down by exit(), while threads of ours may be at work, and before objects with
/// static storage that hold a communicator are destroyed. We ask it not to; where the program has been quicker, this
/// gate is closed first, and there is no way through it afterwards.
class Gate {
 public:
  static Gate& instance() {
    static Gate& gate = *new Gate;  // outlives everything
    return gate;
  }
  bool enter() noexcept {
    users_.fetch_add(1);
    if (!closed_.load()) return true;
    leave();
    return false;
  }
  void leave() noexcept { users_.fetch_sub(1); }
  /// Null: out of memory. Never freed.
  EVP_MAC* mac() const noexcept { return mac_; }

 private:
  Gate() {
    ::OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
    // A context of our own: the program's would read its configuration now, at every start, and perhaps before the
    // program has said which.
    mac_ = ::EVP_MAC_fetch(::OSSL_LIB_CTX_new(), OSSL_MAC_NAME_HMAC, nullptr);
    // libcrypto's handler, if any, is older than ours, so that it runs later.
    std::atexit([] { instance().close(); });
  }
  void close() noexcept {
    closed_.store(true);
    if (!mark_.is_here()) return;  // in a child of fork(): those who were inside have stayed with the parent
    while (users_.load() > 0) std::this_thread::yield();
  }

  const ForkMark mark_;
  EVP_MAC* mac_ = nullptr;
  std::atomic<int> users_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace

bool keep_libcrypto() noexcept {
  const bool up = Gate::instance().enter();
  if (up) Gate::instance().leave();
  return up;
}

std::optional<Digest> hmac_sha256(std::span<const std::byte> key,
                                  std::initializer_list<std::span<const std::byte>> parts) noexcept {
  const auto bytes = [](std::span<const std::byte> span) {
    static constexpr unsigned char none = 0;  // null would mean "the key of last time"
    return span.empty() ? &none : reinterpret_cast<const unsigned char*>(span.data());
  };
  if (!Gate::instance().enter()) return std::nullopt;
  std::array<char, 7> name{"SHA256"};
  const std::array<OSSL_PARAM, 2> settings{::OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name.data(), 0),
                                           ::OSSL_PARAM_construct_end()};
  Digest digest;
  std::size_t size = 0;
  EVP_MAC* const mac = Gate::instance().mac();
  EVP_MAC_CTX* const context = mac == nullptr ? nullptr : ::EVP_MAC_CTX_new(mac);
  bool made = context != nullptr && ::EVP_MAC_init(context, bytes(key), key.size(), settings.data()) == 1;
  for (const auto part : parts) made = made && ::EVP_MAC_update(context, bytes(part), part.size()) == 1;
  made = made && ::EVP_MAC_final(context, reinterpret_cast<unsigned char*>(digest.data()), &size, digest.size()) == 1 &&
         size == digest.size();
  ::EVP_MAC_CTX_free(context);
  Gate::instance().leave();
  if (!made) return std::nullopt;
  return digest;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool fill_with_random(std::span<std::byte> bytes) noexcept { return ::getentropy(bytes.data(), bytes.size()) == 0; }

}  // namespace tutti
