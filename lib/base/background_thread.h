#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace tutti {

/// A thread that handles no signals: those belong to the user, whose handlers run on the user's threads.
template <class Body>
std::thread start_thread_without_signals(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const restore{before};
  return std::thread{std::move(body)};
}

}  // namespace tutti
