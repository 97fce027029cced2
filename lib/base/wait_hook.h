#pragma once

#include <chrono>
#include <cstdint>

namespace tutti {

/// What a program wants to be asked while a thread of its own sleeps in a call: 0, or the call shall end. An
/// interpreter of another language runs its signal handlers there.
struct WaitHook {
  std::int32_t (*function)(void*) = nullptr;  ///< none: nobody is asked
  void* context = nullptr;
};

/// A thread that is in a call already may ask the old one once more.
void set_wait_hook(WaitHook hook);

/// How long a thread that waits until `until` may sleep before it asks the program.
std::chrono::steady_clock::time_point next_question(std::chrono::steady_clock::time_point until) noexcept;

/// Asks the program. True: it wants its call to end.
bool program_interrupts() noexcept;

/// The same for waits in which no communicator is there yet: throws Error{aborted}.
void end_if_program_interrupts();

}  // namespace tutti
