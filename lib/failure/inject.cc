// Plays faults. Everything here runs only if a fault aims at the operation, except for_operation().
//
// Faults end a process in two ways. A signal acts at once, from inside the engine, as in real life. exit() and
// exceptions come from a user's code, so from outside the engine: the operation is marked as abandoned, and the thread
// that waits for it leaves the engine first.

#include "lib/failure/inject.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "lib/engine/pending.h"
#include "lib/observe/log.h"
#include "tutti/error.h"

namespace tutti::detail {
namespace {

using algorithms::Plan;
using algorithms::StepId;
using algorithms::Verb;

/// The step of `plan` at which the fault aims; no_step: there is none.
StepId place(const Fault& fault, const Plan& plan) {
  const bool only_sends = fault.kind == Fault::Kind::corrupt;
  const auto fits = [&](StepId step) { return !only_sends || plan.steps[step].verb == Verb::send; };
  const auto count = static_cast<StepId>(plan.steps.size());
  if (fault.step >= 0)
    return fault.step < count && fits(static_cast<StepId>(fault.step)) ? static_cast<StepId>(fault.step)
                                                                       : algorithms::no_step;
  StepId found = algorithms::no_step;
  for (StepId step = 0; step < count; ++step) {
    if (!fits(step)) continue;
    found = step;
    if (fault.step == Fault::first_step) break;
  }
  return found;
}

bool concerns(const Fault& fault, const Injector::Target& target) {
  return fault.message == 0 && fault.group == target.group && fault.operation == target.operation;
}

/// To the whole process, not only to the calling thread.
void send_signal(int number) { ::kill(::getpid(), number); }

}  // namespace

void refuse_system_calls(std::span<const Fault> faults, int rank) {
  for (const Fault& fault : faults)
    if (fault.kind == Fault::Kind::refuse && (fault.rank == rank || fault.rank < 0))
      system_calls::refuse(*fault.call, fault.error, fault.nth);
}

std::unique_ptr<Injector> Injector::make(std::span<const Fault> faults, int rank) {
  auto made = std::make_unique<Injector>();
  for (const Fault& fault : faults)
    if (fault.kind != Fault::Kind::refuse && (fault.rank == rank || fault.rank < 0)) made->faults_.push_back(fault);
  return made->faults_.empty() ? nullptr : std::move(made);
}

Injector* Injector::for_operation(const Target& target) {
  bool aimed = false;
  for (const Fault& fault : faults_) {
    if (!concerns(fault, target)) continue;
    aimed = true;
    if (place(fault, target.plan) != algorithms::no_step) continue;
    throw Error{
        ErrorCode::invalid_argument,
        fmt::format("TUTTI_INJECT: \"{}\" aims at a {} that this rank's plan does not have: it has {} steps, "
                    "numbered from 0",
                    fault.text, fault.kind == Fault::Kind::corrupt ? "send" : "step", target.plan.steps.size())};
  }
  return aimed ? this : nullptr;
}

bool Injector::allows(Pending& pending, const Target& target, StepId step, const Surroundings& surroundings) noexcept {
  bool allowed = true;
  for (const Fault& fault : faults_) {
    if (!concerns(fault, target) || place(fault, target.plan) != step) continue;
    surroundings.log.info(Log::Subsystem::init, "plays " + fault.text);
    switch (fault.kind) {
      case Fault::Kind::kill:
        send_signal(SIGKILL);
        break;
      case Fault::Kind::stop:
        send_signal(SIGSTOP);
        break;
      case Fault::Kind::exit:
        pending.abandon([] { std::exit(0); });  // NOLINT: concurrency is exactly what is played here
        allowed = false;
        break;
      case Fault::Kind::exception:
        pending.abandon([text = fault.text] { throw std::runtime_error{"injected by TUTTI_INJECT=" + text}; });
        allowed = false;
        break;
      case Fault::Kind::drop:
        surroundings.cut_connections();
        break;
      case Fault::Kind::delay:
        std::this_thread::sleep_for(fault.delay);
        break;
      case Fault::Kind::corrupt:  // done when its bytes are sent: see tampered()
      case Fault::Kind::refuse:
        break;
    }
  }
  return allowed;
}

std::span<const std::byte> Injector::tampered(const Target& target, StepId step, std::span<const std::byte> bytes) {
  for (const Fault& fault : faults_) {
    if (fault.kind != Fault::Kind::corrupt || !concerns(fault, target) || place(fault, target.plan) != step ||
        bytes.empty())
      continue;
    return with_a_bit_flipped(bytes);
  }
  return bytes;
}

std::span<const std::byte> Injector::tampered(std::span<const std::byte> message) {
  ++messages_;
  for (const Fault& fault : faults_)
    if (fault.message == messages_) return with_a_bit_flipped(message);
  return message;
}

std::span<const std::byte> Injector::with_a_bit_flipped(std::span<const std::byte> bytes) {
  auto& copy = copies_.emplace_back(bytes.begin(), bytes.end());
  copy[copy.size() / 2] ^= std::byte{0x40};
  return copy;
}

}  // namespace tutti::detail
