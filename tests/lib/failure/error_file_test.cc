#include "lib/failure/error_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/support/text.h"

namespace tutti {
namespace {

/// A folder, and the variable that points into it; both go with this object.
class ErrorFile {
 public:
  ErrorFile() : folder_(std::filesystem::temp_directory_path() / ("tutti-error-file-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(folder_);
    ::setenv("TORCHELASTIC_ERROR_FILE", path().c_str(), 1);
  }
  ~ErrorFile() {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ / "error.json"; }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream{path()}.rdbuf();
    return text.str();
  }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator{folder_}, std::filesystem::directory_iterator{});
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace

TEST_CASE("an error file reads as torch's agent wants it") {
  CHECK(error_file_text(Error{ErrorCode::peer_lost, "lost rank 2 (host n07, pid 9)", 2, 17}, 1700000000) ==
        "{\"message\": {\"message\": \"tutti::Error: peer_lost: lost rank 2 (host n07, pid 9)\", \"extraInfo\": "
        "{\"timestamp\": \"1700000000\", \"code\": \"peer_lost\", \"rank\": 2, \"operation\": 17}}}\n");
}

TEST_CASE("the file of an error is JSON in UTF-8, for any text") {
  const auto written = [](const std::string& message) { return error_file_text(Error{ErrorCode::system, message}, 0); };
  CHECK(testing::contains(written("a \"b\" \\ c\n\t\x7f"), "a \\\"b\\\" \\\\ c\\u000a\\u0009\\u007f\""));
  CHECK(testing::contains(written("K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80"),
                          "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80\""));
  for (const char* wrong :
       {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80"})
    CHECK(testing::contains(written(wrong), "system: \\ufffd"));
}

TEST_CASE("the first error is left in the file, whole, and nothing beside it") {
  const ErrorFile file;
  write_error_file(Error{ErrorCode::invalid_argument, "of the caller"});
  write_error_file(Error{ErrorCode::unsupported, "of the caller"});
  CHECK(file.files() == 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([i] {
      write_error_file(Error{ErrorCode::timeout, std::string(100'000, static_cast<char>('a' + i))});
    });
  for (std::thread& thread : threads) thread.join();
  const std::string first = file.text();
  CHECK(first.size() > 100'000);
  CHECK(first.ends_with("}}}\n"));
  CHECK(std::count(first.begin(), first.end(), first[first.size() / 2]) >= 100'000);
  write_error_file(Error{ErrorCode::peer_lost, "an echo"});
  CHECK(file.text() == first);
  CHECK(file.files() == 1);
}

TEST_CASE("without the variable, or a place to write, nothing happens") {
  {
    const ErrorFile file;
    ::setenv("TORCHELASTIC_ERROR_FILE", (file.path() + "/no/such/folder").c_str(), 1);
    write_error_file(Error{ErrorCode::timeout, "late"});
    CHECK(file.files() == 0);
  }
  write_error_file(Error{ErrorCode::timeout, "late"});
}

}  // namespace tutti
