#pragma once

#include <csignal>

namespace tutti::cli {

/// The signal that asked this program to stop, or 0; loops that wait check it.
extern volatile std::sig_atomic_t told_to_stop;

/// From now on SIGINT, SIGTERM and SIGHUP set `told_to_stop`, except those that were ignored when this program started.
void listen_for_stop();
/// For a child that these signals shall end again.
void stop_listening();

}  // namespace tutti::cli
