#pragma once

#include <pybind11/pybind11.h>

/// Python's signal handlers run while its main thread sleeps in a call, ten times a second; without this, Ctrl-C would
/// do nothing until the call is over.
namespace tutti_torch {

/// Lets tutti ask Python. There is one such question in a process: this one serves the module pytutti, too.
void ask_python();

/// Runs handlers of signals that have come, if this is Python's main thread, and throws what one has raised. For waits
/// that are not the library's.
void handle_signals();
/// Throws what a handler has raised in a call of this thread, and forgets it. Call it where such a call has failed.
void rethrow_interrupt();
/// The same for Python: returns it, or None.
pybind11::object take_interrupt();

}  // namespace tutti_torch
