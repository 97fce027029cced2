#include "lib/observe/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "lib/base/descriptor.h"
#include "tests/support/scratch.h"
#include "tests/support/world.h"

namespace tutti::testing {
namespace {

using Subsystem = Log::Subsystem;

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// One line of each kind, as a rank 3 on n07 writes them with these settings; without what changes from run to run.
std::vector<std::string> said(const std::string& level, const std::string& subsystems) {
  const Folder folder;
  const Setting debug{"TUTTI_DEBUG", level};
  const Setting list{"TUTTI_DEBUG_SUBSYS", subsystems};
  const Setting file{"TUTTI_DEBUG_FILE", folder.name + "/log"};
  const Log log = Log::from_environment(3, "n07");
  log.version("version");
  log.warn("warning");
  log.info(Subsystem::init, "init");
  log.info(Subsystem::coll, "coll");
  log.trace(Subsystem::net, "net");
  log.trace(Subsystem::coll, "step");
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(folder.name + "/log")) {
    const std::regex head{R"(n07:\d+:\d+ \[3\] (\d+\.\d{6} )?TUTTI (.*))"};
    std::smatch match;
    REQUIRE_MESSAGE(std::regex_match(line, match, head), line);
    CHECK(match[1].matched == (line.find("TRACE") != std::string::npos));
    lines.push_back(match[2]);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("levels show what is below them, subsystems choose among information") {
  CHECK(said("VERSION", "") == Lines{"version"});
  CHECK(said("WARN", "") == Lines{"version", "WARN warning"});
  CHECK(said("INFO", "") == Lines{"version", "WARN warning", "INFO init"});
  CHECK(said("TRACE", "") == Lines{"version", "WARN warning", "INFO init", "TRACE net"});
  CHECK(said("INFO", "COLL") == Lines{"version", "WARN warning", "INFO coll"});
  CHECK(said("trace", "coll,Net") == Lines{"version", "WARN warning", "INFO coll", "TRACE net", "TRACE step"});
  CHECK(said("TRACE", "ALL").size() == 6);
  CHECK(said("TRACE", "^NET,INIT") == Lines{"version", "WARN warning", "INFO coll", "TRACE step"});
  CHECK(said("TRACE", "^ALL") == Lines{"version", "WARN warning"});
  CHECK(said("", "ALL") == Lines{"version", "WARN warning"});  // a file alone: as with WARN
}

TEST_CASE("words that are none are refused with the nearest that is") {
  const auto complaint = [](const char* name, const char* value) {
    const Setting setting{name, value};
    return error_of([] { Log::from_environment(0, "h"); });
  };
  CHECK(
      complaint("TUTTI_DEBUG", "INFOS")
          .find("TUTTI_DEBUG is \"INFOS\": not one of these, accepted: VERSION | WARN | INFO | TRACE. Did you mean") ==
      0);
  CHECK(complaint("TUTTI_DEBUG_SUBSYS", "INIT,COL")
            .find("\"COL\" is not a subsystem, accepted: list of INIT, NET, SHM, STORE, COLL, P2P, ALGO, TUNE, ENV, "
                  "ALL; ^ before it "
                  "excludes. Did you mean \"COLL\"?") != std::string::npos);
  CHECK(complaint("TUTTI_DEBUG_SUBSYS", "INIT,,NET") != "");
  CHECK(complaint("TUTTI_DEBUG_FILE", "/tmp/%x").find("\"%x\" stands for nothing, accepted: a path with %h host") !=
        std::string::npos);
  CHECK(complaint("TUTTI_DEBUG_FILE", "/tmp/%").find("\"%\" stands for nothing") != std::string::npos);
  CHECK(complaint("TUTTI_DEBUG_FILE", "/no-such-folder/log")
            .find("not a file that can be written: /no-such-folder/log: No such file or directory") !=
        std::string::npos);
}

TEST_CASE("a file's name may hold host, pid and rank, and what is in it stays") {
  const Folder folder;
  const Setting debug{"TUTTI_DEBUG", "INFO"};
  const Setting file{"TUTTI_DEBUG_FILE", folder.name + "/100%%-%h-%p-%r"};
  Log::from_environment(12, "n07").warn("first");
  Log::from_environment(12, "n07").warn("second");
  CHECK(lines_of(folder.name + "/100%-n07-" + std::to_string(::getpid()) + "-12").size() == 2);
}

/// What `body` writes to stderr.
std::string on_stderr(const Folder& folder, const std::function<void()>& body) {
  const std::string path = folder.name + "/stderr";
  const Descriptor before(::dup(STDERR_FILENO));
  const Descriptor to(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ::dup2(to.get(), STDERR_FILENO);
  body();
  ::dup2(before.get(), STDERR_FILENO);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("without any variable only warnings appear, as plain lines on stderr") {
  const Folder folder;
  CHECK(on_stderr(folder, [] {
          for (const Log& log : {Log{}, Log::from_environment(1, "h")}) {
            log.version("version");
            log.warn("warning");
            log.info(Subsystem::init, "info");
            log.trace(Subsystem::coll, "trace");
          }
        }) == "tutti: warning\ntutti: warning\n");
}

TEST_CASE("lines of several threads come whole") {
  const Folder folder;
  const Setting debug{"TUTTI_DEBUG", "INFO"};
  const Setting file{"TUTTI_DEBUG_FILE", folder.name + "/log"};
  const Log log = Log::from_environment(0, "h");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&log] {
      for (int i = 0; i < 500; ++i) log.info(Subsystem::net, std::string(200, 'x'));
    });
  for (std::thread& thread : threads) thread.join();
  const Lines lines = lines_of(folder.name + "/log");
  CHECK(lines.size() == 2000);
  const std::regex whole{R"(h:\d+:\d+ \[0\] TUTTI INFO x{200})"};
  for (const std::string& line : lines)
    if (!std::regex_match(line, whole)) FAIL(line);
}

}  // namespace
}  // namespace tutti::testing
