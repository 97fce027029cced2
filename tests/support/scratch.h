#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

// Changes that a test makes for as long as it runs.

namespace tutti::testing {

/// A variable of this process for the length of a test.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

/// A folder that is removed with the test.
struct Folder {
  Folder() {
    char path[] = "/tmp/tutti-test-XXXXXX";
    REQUIRE(::mkdtemp(path) != nullptr);
    name = path;
  }
  ~Folder() { std::filesystem::remove_all(name); }
  std::string name;
};

}  // namespace tutti::testing
