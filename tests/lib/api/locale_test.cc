// A program that speaks German: numbers of variables and files must mean what they mean in English.

#include <doctest/doctest.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <locale>
#include <string>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif
#endif

#include "tests/support/scratch.h"
#include "tests/support/trace_file.h"
#include "tutti/tutti.h"

namespace tutti::testing {
namespace {

/// The C library keeps what LOCPATH says, and never frees it.
struct MayLeak {
#ifdef SANITIZER_LSAN_INTERFACE_H
  __lsan::ScopedDisabler disabler;
#endif
};

/// "0,5" is a half and "1.000" a thousand, for C and for C++, until this object goes. The system may have no such
/// locale, so one is made.
class CommaLocale {
 public:
  CommaLocale() {
    std::ofstream{folder_.name + "/source"} << "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\n"
                                               "END LC_NUMERIC\n";
    // It warns, and fails therefore, of what is not defined, but writes what is.
    const std::string make = "localedef -c -i " + folder_.name + "/source " + folder_.name + "/comma >/dev/null 2>&1";
    made_ = std::system(make.c_str()) != -1 && std::filesystem::exists(folder_.name + "/comma/LC_NUMERIC");
    if (!made_) return;
    const Setting path{"LOCPATH", folder_.name};
    [[maybe_unused]] const MayLeak kept_by_libc;
    before_ = std::locale::global(std::locale{std::locale::classic(), "comma", std::locale::numeric});
  }
  ~CommaLocale() {
    if (made_) std::locale::global(before_);
  }
  bool made() const { return made_; }

 private:
  Folder folder_;
  bool made_ = false;
  std::locale before_;
};

bool is_number(const std::string& text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size();
}

}  // namespace

TEST_CASE("seconds in variables are read alike, and a trace is written alike, in a program whose locale has a comma") {
  const Folder folder;
  const Setting timeout{"TUTTI_TIMEOUT", "0.5"};
  const Setting lost{"TUTTI_LOST_AFTER", "2.5"};
  const Setting trace{"TUTTI_TRACE_FILE", folder.name + "/trace"};
  const CommaLocale german;
  if (!german.made()) {
    MESSAGE("this system has no localedef: nothing to see");
    return;
  }
  REQUIRE(std::strtod("0.5", nullptr) == 0);
  {
    Communicator alone = connect();
    std::vector<float> values(5'000'000, 1.F);
    alone.all_reduce(values, sum);
    const Setting comma{"TUTTI_TIMEOUT", "0,5"};
    CHECK_THROWS_AS(connect(), Error);
  }
  const std::vector<TraceEvent> events = read_trace(folder.name + "/trace");
  CHECK_FALSE(events.empty());
  for (const TraceEvent& event : events)
    for (const char* key : {"ts", "dur", "pid", "count"})
      CHECK_MESSAGE((event.text(key).empty() || is_number(event.text(key))), event.line);
}

}  // namespace tutti::testing
