// The main function of every test program, with a watchdog: a test that hangs is named and its program ended.
// WATCHDOG_SECONDS sets the limit (sanitizers need more); 0: no limit.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

namespace {

std::chrono::seconds patience() {
  const char* seconds = std::getenv("WATCHDOG_SECONDS");
  return std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 120);
}

/// Children of a hung test would outlive it.
void kill_children() {
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) ::kill(child, SIGKILL);
  }
}

class Watchdog : public doctest::IReporter {
 public:
  explicit Watchdog(const doctest::ContextOptions& /*options*/) {}
  ~Watchdog() override { stop(); }

  void test_run_start() override {
    if (patience_.count() > 0) thread_ = std::thread([this] { watch(); });
  }
  void test_run_end(const doctest::TestRunStats& /*stats*/) override { stop(); }
  void test_case_start(const doctest::TestCaseData& test) override {
    enter(std::string(test.m_file.c_str()) + ":" + std::to_string(test.m_line) + ": " + test.m_name);
  }
  void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override { enter({}); }

  void report_query(const doctest::QueryData& /*data*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*test*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*test*/) override {}

 private:
  void enter(std::string running) {
    const std::lock_guard lock(mutex_);
    running_ = std::move(running);
    ++generation_;
    changed_.notify_one();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const auto seen = generation_;
      const auto moved_on = [&] { return stopping_ || generation_ != seen; };
      if (running_.empty()) {
        changed_.wait(lock, moved_on);
      } else if (!changed_.wait_for(lock, patience_, moved_on)) {
        std::fprintf(stderr, "watchdog: still running after %lld s, giving up: %s\n",
                     static_cast<long long>(patience_.count()), running_.c_str());
        kill_children();
        std::signal(SIGABRT, SIG_DFL);  // doctest's own handler would call this object again
        std::abort();
      }
    }
  }

  const std::chrono::seconds patience_ = patience();  // read before any test changes the environment
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string running_;
  unsigned generation_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

REGISTER_LISTENER("watchdog", 0, Watchdog);
