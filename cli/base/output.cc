// One rule for all output of the program: a result that could not be written is an error.

#include "cli/base/output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "cli/base/exit_codes.h"
#include "lib/base/descriptor.h"

namespace tutti::cli {
namespace {

constexpr const char* standard_output = "standard output";

std::string_view remedy_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free space there, or write elsewhere";
    case EFBIG:
      return "; raise the limit of file sizes (ulimit -f)";
    case EBADF:
      return "; the program that started this one had closed it";
    case ENOENT:
    case ENOTDIR:
      return "; make its folder first";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; name a place where this user may write";
    default:
      return "";
  }
}

std::string cannot_write(std::string_view who, std::string_view where, int error) {
  const std::string why = error == 0 ? "not all of it arrived" : std::system_category().message(error);
  return fmt::format("{}{}cannot write {}: {}{}", who, who.empty() ? "" : ": ", where, why, remedy_for(error));
}

}  // namespace

OutputError::OutputError(std::string_view who, std::string_view where, int error)
    : Error(ErrorCode::system, cannot_write(who, where, error)) {}

OutputError::OutputError(const Error& error) : Error(ErrorCode::system, error.what()) {}

void hold_standard_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) < 0) [[maybe_unused]]
      const int held = ::open("/dev/null", O_RDONLY);  // the lowest free number; it cannot be written
}

void require_output(std::string_view who) {
  if ((::fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) throw OutputError{who, standard_output, EBADF};
}

void require_folder(std::string_view who, const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::path{path}.parent_path();
  const int wanted = std::filesystem::exists(path) ? 0 : W_OK | X_OK;  // an existing file reports errors itself
  if (::access(folder.empty() ? "." : folder.c_str(), wanted) != 0) throw OutputError{who, path, errno};
}

void make_folder(std::string_view who, const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw OutputError{who, path, error.value()};
}

void print_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size()) throw OutputError{"", standard_output, errno};
}

void flush_output() {
  if (std::fflush(stdout) != 0) throw OutputError{"", standard_output, errno};
}

void say_error(const std::string& text) { std::fputs(text.c_str(), stderr); }

bool write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t wrote = ::write(descriptor, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

void write_file(std::string_view who, const std::string& path, std::string_view content) {
  Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  const bool written = file && write_all(file.get(), content);
  if (!written || ::close(file.release()) != 0) throw OutputError{who, path, errno};
}

int end_output(int code) {
  const bool lost = std::ferror(stdout) != 0;
  errno = 0;
  const bool arrived = std::fclose(stdout) == 0 && !lost;
  const int error = errno;
  if (arrived) return code == exit_success && std::ferror(stderr) != 0 ? exit_output : code;
  if (error == EPIPE) return 128 + SIGPIPE;
  if (code != exit_output) say_error(fmt::format("tutti: {}\n", cannot_write("", standard_output, error)));
  return code == exit_success ? exit_output : code;
}

}  // namespace tutti::cli
