// Which silence makes a rank count as lost, and which does not.

#include <doctest/doctest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/failure/control_connection.h"
#include "lib/failure/detector.h"
#include "tests/lib/failure/played_ranks.h"
#include "tests/support/address_kinds.h"

namespace tutti::detail {
namespace {

using namespace std::chrono_literals;
using played::dial, played::hear, played::open_acceptor;
using tutti::testing::OverUnix;

/// Beats are so rare, and a rank counts as lost so late, that a busy machine does not decide.
constexpr WatchSettings patient{.beat = 200ms, .lost = 2s};

/// A rank whose whole machine stops for a while, just when it warns of a silent rank.
class Stopped final : public DetectorUser {
 public:
  void suspected(const std::string&) noexcept override {
    if (resumed_) return;
    std::this_thread::sleep_for(patient.lost * 6 / 10);
    resumed_ = true;
  }
  void failed(const Failure&) noexcept override { failed_ = true; }
  void departed(const std::vector<int>&) noexcept override {}
  void status(const Report&, Reply) noexcept override {}

  bool has_resumed() const { return resumed_; }
  bool has_failed() const { return failed_; }

 private:
  std::atomic<bool> resumed_{false};
  std::atomic<bool> failed_{false};
};

/// Reads what `connection` is sent until `rank` runs again.
void stand_still(ControlConnection& connection, const Stopped& rank, FailureDetector::Clock::time_point deadline) {
  while (!rank.has_resumed() && FailureDetector::Clock::now() < deadline) {
    pollfd query{.fd = connection.fd(), .events = POLLIN, .revents = 0};
    ::poll(&query, 1, 10);
    std::vector<ControlMessage> ignored;
    connection.read(ignored);
  }
  REQUIRE(rank.has_resumed());
}

TEST_CASE("a rank whose machine stopped while it warned of another one goes on listening to that") {
  const Secret key = Secret::random();
  const auto deadline = FailureDetector::Clock::now() + 40s;
  Stopped user;
  FailureDetector first{0, open_acceptor<OverUnix>(0, key), key};
  std::jthread one{[&] { first.begin({{first.address(), "r0"}, {"127.0.0.1:9", "r1"}}, patient, user, deadline); }};
  ControlConnection second = dial(1, 0, first.address(), key, deadline);
  second.send({.kind = ControlMessage::Kind::beat});
  stand_still(second, user, deadline);
  // The other one ran as little, and says nothing before it has heard something.
  for (int beats = 0; beats < 3; ++beats) {
    REQUIRE(hear(second, ControlMessage::Kind::beat, 1, deadline));
    second.send({.kind = ControlMessage::Kind::beat});
  }
  CHECK(!user.has_failed());
}

}  // namespace
}  // namespace tutti::detail
