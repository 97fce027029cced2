// The file in which a rank tells torch's elastic agent why it failed. Of the files of several ranks the agent shows the
// one with the earliest timestamp as the root cause.

#include "lib/failure/error_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string_view>

#include "lib/base/descriptor.h"
#include "lib/base/environment.h"

namespace tutti {
namespace {

/// Length of the UTF-8 character at the beginning of `text`; 0: the bytes are not UTF-8.
std::size_t character_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = at(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  if (length == 3 && ((first == 0xe0 && at(1) < 0xa0) || (first == 0xed && at(1) >= 0xa0))) return 0;  // surrogates
  if (length == 4 && ((first == 0xf0 && at(1) < 0x90) || (first == 0xf4 && at(1) >= 0x90))) return 0;
  return length;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const char c = text.front();
    if (length == 0)
      result += "\\ufffd";
    else if (c == '"' || c == '\\')
      result += std::string{'\\', c};
    else if (length == 1 && (static_cast<std::uint8_t>(c) < 0x20 || c == 0x7f))
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      result += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result + "\"";
}

bool write_all(const Descriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// Creates the file with all of its content at once, unless it exists: ranks may share it.
void leave(const std::string& path, const std::string& text) {
  const std::string draft = fmt::format("{}.{}.{}", path, ::getpid(), ::gettid());
  const Descriptor file{::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (!file) return;
  if (write_all(file, text) && ::link(draft.c_str(), path.c_str()) != 0 && ::access(path.c_str(), F_OK) != 0)
    ::rename(draft.c_str(), path.c_str());  // for file systems without hard links
  ::unlink(draft.c_str());
}

}  // namespace

std::string error_file_text(const Error& error, long long seconds_since_1970) {
  return fmt::format(
      R"({{"message": {{"message": {}, "extraInfo": {{"timestamp": "{}", "code": "{}", "rank": {}, "operation": {}}}}}}})"
      "\n",
      quoted(fmt::format("tutti::Error: {}: {}", name_of(error.code()), error.what())), seconds_since_1970,
      name_of(error.code()), error.rank(), error.operation());
}

void write_error_file(const Error& error) noexcept {
  if (error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::unsupported) return;
  try {
    const auto path = variable("TORCHELASTIC_ERROR_FILE");
    if (!path || ::access(path->c_str(), F_OK) == 0) return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    leave(*path, error_file_text(error, std::chrono::duration_cast<std::chrono::seconds>(now).count()));
  } catch (...) {
    // There is no memory for a few lines of text, so there is no file.
  }
}

}  // namespace tutti
