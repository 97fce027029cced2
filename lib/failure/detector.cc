#include "lib/failure/detector.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

#include "lib/base/background_thread.h"
#include "lib/base/system_error_text.h"
#include "lib/failure/member.h"

namespace tutti::detail {
namespace {

constexpr std::size_t reserve_bytes = std::size_t{256} << 10;

void unmap(void* memory) {
  if (memory != MAP_FAILED) ::munmap(memory, reserve_bytes);
}

}  // namespace

FailureDetector::FailureDetector(int rank, std::shared_ptr<transport::Acceptor> acceptor, const Secret& key,
                                 std::shared_ptr<TlsProxies> tls_proxies)
    : rank_(rank),
      acceptor_(std::move(acceptor)),
      member_(std::make_unique<Member>(rank, acceptor_, key, std::move(tls_proxies),
                                       Member::Shared{tasks_, readiness_, reunions_})),
      reserve_(::mmap(nullptr, reserve_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), unmap) {
  acceptor_->serve(Purpose::failure_detector, [this](const Hello& hello, net::Socket socket) {
    const auto connection = std::make_shared<Descriptor>(std::move(socket));
    tasks_.post([this, connection, from = hello.from] { member_->accept(from, std::move(*connection)); });
  });
}

FailureDetector::~FailureDetector() {
  stop();
  acceptor_->dismiss(Purpose::failure_detector);
  acceptor_->close();
}

const std::string& FailureDetector::address() const { return acceptor_->address(); }

void FailureDetector::begin(std::vector<Watched> ranks, const WatchSettings& settings, DetectorUser& user,
                            Clock::time_point deadline) {
  const std::string first_address = ranks.front().address;
  const auto parsed = net::parse_address(first_address);
  const bool is_port = !parsed || !parsed->is_unix();
  member_->begin(std::move(ranks), settings, user);
  thread_ = start_thread_without_signals([this, &user] { run(user); });
  if (readiness_.wait(deadline)) return;
  const auto failure = readiness_.hopeless();
  stop();
  if (failure) throw Error{failure->code, "set-up: " + failure->text, failure->culprit};
  throw Error{ErrorCode::rendezvous,
              fmt::format("set-up: {} waited until its deadline for all ranks to connect to the coordinator, {} at {}; "
                          "check that they are alive{}",
                          member_->name(rank_), member_->name(0), first_address,
                          is_port ? " and that their hosts may connect to that port" : ""),
              0};
}

void FailureDetector::run(DetectorUser& user) noexcept {
  try {
    member_->run();
  } catch (const std::bad_alloc&) {
    reserve_.reset();  // enough to say so; the others notice when this process leaves
    user.failed({.code = ErrorCode::system,
                 .culprit = rank_,
                 .text = "the failure detector of this rank has no memory: " + refusal(ENOMEM)});
    readiness_.set_ready();
  }
}

void FailureDetector::stop() noexcept {
  if (!thread_.joinable()) return;
  tasks_.post([this] { member_->leave_soon(); });
  thread_.join();
}

int FailureDetector::coordinator() const { return member_->coordinator(); }

void FailureDetector::tell(const Failure& failure) {
  tasks_.post(
      [this, failure] { member_->send_to_coordinator({.kind = ControlMessage::Kind::failure, .failure = failure}); });
}

void FailureDetector::suspect(const Failure& failure, const Report& calls) {
  tasks_.post([this, failure, calls] { member_->suspect(failure, calls); });
}

void FailureDetector::cut() {
  tasks_.post([this] { member_->cut(); });
}

void FailureDetector::report(const Report& report) {
  tasks_.post(
      [this, report] { member_->send_to_coordinator({.kind = ControlMessage::Kind::report, .report = report}); });
}

Reunion FailureDetector::reunite(const Report& report, Clock::time_point deadline) {
  const auto awaited = reunions_.begin(report);
  tasks_.post([this] { member_->tell_reunions(); });
  if (auto outcome = reunions_.wait(*awaited, deadline)) return std::move(*outcome);
  tasks_.post([this] { member_->tell_reunions(); });
  if (awaited->interrupted) throw Error{ErrorCode::aborted, "shrink: interrupted by the program"};
  std::string names;
  for (const int rank : awaited->missing) names += (names.empty() ? "" : ", ") + member_->name(rank);
  throw Error{ErrorCode::timeout,
              fmt::format("shrink: waited until the deadline for {}; every survivor must call shrink()",
                          names.empty() ? member_->name(coordinator()) + ", which gathers the survivors" : names),
              awaited->missing.empty() ? -1 : awaited->missing.front()};
}

}  // namespace tutti::detail
