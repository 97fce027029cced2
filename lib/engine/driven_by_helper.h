#pragma once

#include <memory>
#include <utility>

#include "lib/engine/engine.h"

namespace tutti::detail {

/// While it exists, the helper thread drives the engine if no other does. Engine::get_helper() was called before.
///
/// It is for a thread that something else may keep, whose end needs the engine. That is so wherever a caller enqueues
/// commands on a stream that may wait for other ranks: a driver keeps it as long as the stream's queue is full, whether
/// by a call of many commands (about 500 are enough) or by what was there before. The stream goes on only if the engine
/// moves staged messages meanwhile, and after a failure only if the engine ends its waits.
class DrivenByHelper {
 public:
  explicit DrivenByHelper(std::shared_ptr<Engine> engine) : work_(*new Work{std::move(engine)}) {
    work_.asynchronous = true;
    work_.engine().submit(work_);
  }
  ~DrivenByHelper() {
    Engine& engine = work_.engine();
    engine.post([&work = work_] {
      work.end();
      static_cast<Pending&>(work).release();
    });
  }
  DrivenByHelper(const DrivenByHelper&) = delete;
  DrivenByHelper& operator=(const DrivenByHelper&) = delete;

 private:
  class Work final : public Pending {
   public:
    using Pending::Pending;
    /// May come after the end.
    void start() noexcept override {
      has_begun_ = true;
      if (has_ended_) engine_->finished(*this);
    }
    void end() noexcept {
      has_ended_ = true;
      if (has_begun_) engine_->finished(*this);
    }
    void expire() noexcept override {}
    void departed(std::span<const int>) noexcept override {}
    void abort(std::string_view) noexcept override {}

   private:
    void recycle() noexcept override { delete this; }

    bool has_begun_ = false, has_ended_ = false;
  };

  Work& work_;
};

}  // namespace tutti::detail
