#include "lib/security/secret.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "tests/support/allocations.h"
#include "tutti/error.h"

namespace tutti {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span{text}); }

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<int>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<int>(byte) & 15];
  }
  return text;
}

std::string complaint(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

/// A file that goes with this object.
struct File {
  explicit File(const std::string& content, mode_t mode = 0600) {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-secret-XXXXXX").string();
    ::close(::mkstemp(name.data()));
    path = name;
    std::ofstream{path} << content;
    ::chmod(path.c_str(), mode);
  }
  ~File() { std::filesystem::remove(path); }
  std::string complaint_about() const {
    return complaint([this] { Secret::from_file(path); });
  }

  std::string path;
};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("HMAC-SHA256 is that of RFC 4231") {
  const std::string key(20, '\x0b');
  CHECK(hex(hmac_sha256(bytes_of(key), {bytes_of("Hi There")})) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  const std::string data = "what do ya want for nothing?";
  const std::string expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  CHECK(hex(hmac_sha256(bytes_of("Jefe"), {bytes_of(data)})) == expected);
  for (std::size_t cut = 0; cut <= data.size(); ++cut)
    CHECK(hex(hmac_sha256(bytes_of("Jefe"), {bytes_of(data).first(cut), bytes_of(""), bytes_of(data).subspan(cut)})) ==
          expected);
}

TEST_CASE("a key of no bytes is a key like others, not the one before it") {
  // By Python: hmac.new(b"", b"", "sha256")
  const std::string expected = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
  CHECK(hex(hmac_sha256({}, {})) == expected);
  hmac_sha256(bytes_of("another"), {});
  CHECK(hex(hmac_sha256({}, {})) == expected);
}

TEST_CASE("keys and messages may be longer than a block") {
  // By Python: hmac.new(b"k" * length, b"x" * 1000 + b"y", "sha256")
  const std::pair<std::size_t, const char*> expected[] = {
      {63, "419f2e7ae4a30aad35b2a60e6195f94c8b987f86156e7549228461f902daa537"},
      {64, "325435ac4defff4c955f6dc5acafb641addace914b8841083269a048472b8c9b"},
      {65, "cb86c708d771193b62f9f0cfa3e7b2be817d920b79835913fde5815c9bf5b509"},
      {100, "7fa8a6f8b0a916af83532bd4769bfc38ee13573088618cb876bfcea6048978d5"}};
  for (const auto& [length, digest] : expected)
    CHECK(hex(hmac_sha256(bytes_of(std::string(length, 'k')), {bytes_of(std::string(1000, 'x')), bytes_of("y")})) ==
          digest);
}

TEST_CASE("comparison finds every difference, in length too") {
  const std::string a(32, 'a');
  CHECK(equal_in_constant_time(bytes_of(a), bytes_of(a)));
  CHECK(equal_in_constant_time({}, {}));
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::string b = a;
    b[i] ^= 1;
    CHECK_FALSE(equal_in_constant_time(bytes_of(a), bytes_of(b)));
    CHECK_FALSE(equal_in_constant_time(bytes_of(a), bytes_of(a).first(i)));
  }
}

TEST_CASE("random secrets differ, and fit where a person's must") {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(Secret::random().reveal());
  CHECK(seen.size() == 100);
  const std::string one = Secret::random().reveal();
  CHECK(one.size() == 64);
  CHECK(one.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(Secret::from_text(one, "test").reveal() == one);
}

TEST_CASE("derived keys depend on secret, label and context") {
  const Secret secret = Secret::from_text("a secret of a job", "test");
  const Secret other = Secret::from_text("a secret of a jot", "test");
  std::set<std::string> seen;
  for (const Secret& from : {secret, other, Secret{}})
    for (const char* label : {"link", "store", "l"})
      for (const char* context : {"", "1", "ink"}) seen.insert(from.derive(label, bytes_of(context)).reveal());
  CHECK(seen.size() == 27);
  CHECK(secret.derive("l").reveal() == secret.derive("l").reveal());
}

TEST_CASE("a text that is too short or too long is refused without being quoted") {
  CHECK(Secret::from_text("0123456789abcdef", "X").reveal() == "0123456789abcdef");
  const std::string short_one = complaint([] { Secret::from_text("open sesame", "TUTTI_SECRET"); });
  CHECK(has(short_one, "TUTTI_SECRET has 11 characters"));
  CHECK(has(short_one, "openssl rand -hex 32"));
  CHECK_FALSE(has(short_one, "sesame"));
  CHECK(complaint([] { Secret::from_text(std::string(4096, 'x'), "X"); }) == "");
  CHECK(complaint([] { Secret::from_text(std::string(4097, 'x'), "X"); }) != "");
}

TEST_CASE("a file gives its content without the line end") {
  for (const char* end : {"", "\n", "\r\n"})
    CHECK(Secret::from_file(File{std::string{"0123456789abcdef"} + end}.path).reveal() == "0123456789abcdef");
  for (const mode_t mode : {0600u, 0400u}) CHECK(File("0123456789abcdef", mode).complaint_about() == "");
  CHECK(File(std::string(4096, 'x') + "\n").complaint_about() == "");
}

namespace {

constexpr uid_t somebody = 12345;

/// If root runs the test, it acts as another user for the length of the test. Other users act as themselves.
class NotRoot {
 public:
  NotRoot() {
    if (!was_root_) return;
    REQUIRE(::setegid(somebody) == 0);
    REQUIRE(::seteuid(somebody) == 0);
  }
  ~NotRoot() {
    if (!was_root_) return;
    CHECK(::seteuid(0) == 0);
    CHECK(::setegid(0) == 0);
  }
  NotRoot(const NotRoot&) = delete;
  NotRoot& operator=(const NotRoot&) = delete;

 private:
  const bool was_root_ = ::geteuid() == 0;
};

}  // namespace

TEST_CASE("a file that others may open is refused with the remedy") {
  const NotRoot user;
  for (const mode_t mode : {0640u, 0604u, 0660u, 0644u, 0610u, 0601u, 0602u, 0620u, 0777u}) {
    const File file{"0123456789abcdef", mode};
    CAPTURE(mode);
    CHECK(has(file.complaint_about(), "chmod 600 " + file.path));
    CHECK(has(file.complaint_about(), "defaultMode: 0400"));
  }
}

TEST_CASE("root's file is a secret for who reads it through a group of his, as containers mount it") {
  if (::geteuid() != 0) {
    MESSAGE("only root can give files away");
    return;
  }
  const auto complaint_about = [](gid_t group, mode_t mode) {
    const File file{"0123456789abcdef", mode};
    REQUIRE(::chown(file.path.c_str(), 0, group) == 0);
    const NotRoot user;
    return file.complaint_about();
  };
  CHECK(complaint_about(somebody, 0440) == "");
  CHECK(complaint_about(somebody, 0640) == "");
  for (const mode_t mode : {0444u, 0644u, 0660u, 0650u, 0441u}) {
    CAPTURE(mode);
    CHECK(has(complaint_about(somebody, mode), "fsGroup"));
  }
  // A group of others: what let this one open the file lets them, too.
  CHECK(has(complaint_about(somebody + 1, 0444), "chmod 600"));
  CHECK(has(complaint_about(somebody + 1, 0440), "Permission denied. If it is a mounted Kubernetes Secret"));
  // Root itself, in a pod with fsGroup that runs as root, and in one without.
  const File of_a_group{"0123456789abcdef", 0440}, of_root{"0123456789abcdef", 0400};
  REQUIRE(::chown(of_a_group.path.c_str(), 0, somebody) == 0);
  CHECK(has(of_a_group.complaint_about(), "chmod 600"));
  CHECK(of_root.complaint_about() == "");
  REQUIRE(::chown(of_a_group.path.c_str(), 0, ::getegid()) == 0);
  CHECK(of_a_group.complaint_about() == "");
  // The kubelet puts links there.
  const File link{""};
  std::filesystem::remove(link.path);
  std::filesystem::create_symlink(of_root.path, link.path);
  CHECK(link.complaint_about() == "");
}

TEST_CASE("a file that is another user's, or no secret, is refused by name") {
  const File small{"short\n"}, large{std::string(4097, 'x')}, empty{""};
  for (const File* file : {&small, &large, &empty}) {
    CHECK(has(file->complaint_about(), file->path));
    CHECK(has(file->complaint_about(), "characters"));
    CHECK_FALSE(has(file->complaint_about(), "short"));
  }
  CHECK(has(complaint([] { Secret::from_file("/no/such/file"); }), "/no/such/file: No such file"));
  CHECK(has(complaint([] { Secret::from_file("/tmp"); }), "no regular file"));
  const File pipe{""};
  std::filesystem::remove(pipe.path);
  REQUIRE(::mkfifo(pipe.path.c_str(), 0600) == 0);
  CHECK(has(pipe.complaint_about(), "no regular file"));  // and does not wait for a writer
  if (::geteuid() == 0) {
    const File foreign{"0123456789abcdef"};
    REQUIRE(::chown(foreign.path.c_str(), 12345, 0) == 0);
    CHECK(has(foreign.complaint_about(), "belongs to user 12345"));
  }
}

namespace {

constexpr std::string_view words = "unforgettable words, or are they";
const void* watched = nullptr;
int releases = 0;
bool was_wiped = false;

void look(const void* memory) {
  if (memory != watched) return;
  ++releases;
  was_wiped = std::memcmp(memory, std::string(words.size(), '\0').data(), words.size()) == 0;
}

}  // namespace

TEST_CASE("the memory of a secret is wiped before it is given back, also when another takes its place") {
  for (const bool replaced : {false, true}) {
    releases = 0;
    was_wiped = false;
    {
      Secret secret{bytes_of(words)};
      watched = secret.bytes().data();
      REQUIRE(std::memcmp(watched, words.data(), words.size()) == 0);
      transport::testing::observe_releases(look);
      if (replaced) secret = Secret{};
      CHECK(releases == (replaced ? 1 : 0));
    }
    transport::testing::observe_releases(nullptr);
    CHECK(releases == 1);
    CHECK(was_wiped);
  }
}

}  // namespace tutti
