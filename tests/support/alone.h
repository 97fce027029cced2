#pragma once

#include <chrono>
#include <memory>

#include "lib/group/context.h"
#include "lib/startup/join.h"
#include "transport/memory/inproc.h"

namespace tutti::testing {

/// A job of one rank.
inline std::shared_ptr<detail::Context> alone() {
  auto context = std::make_shared<detail::Context>();
  context->tuning = {&algorithms::TuningTable::builtin(), [](const auto*) {}};
  context->kernels = &compute::choose_table("");
  detail::join_ranks(*context, {.inproc = std::make_shared<transport::InprocHub>(1),
                                .deadline = detail::Clock::now() + std::chrono::seconds{20}});
  return context;
}

}  // namespace tutti::testing
