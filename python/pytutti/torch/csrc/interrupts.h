#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>

/// Python's signal handlers run while its main thread sleeps in a call, ten times a second; without this, Ctrl-C would
/// do nothing until the call is over.
namespace tutti_torch {

/// Lets other threads run Python while this one may wait; does nothing where it could not have Python anyway.
class WithoutPython {
 public:
  WithoutPython() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;
  ~WithoutPython() {
    if (state_) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* const state_;
};

/// Lets tutti ask Python. There is one such question in a process: this one serves the module pytutti, too.
void ask_python();

/// The address of the tutti_wait_function of the module pytutti, which is to be asked in all threads but the main one.
void ask_other_threads_by(std::uintptr_t function);

/// Runs handlers of signals that have come, if this is Python's main thread, and throws what one has raised. For waits
/// that are not the library's.
void handle_signals();
/// Throws what a handler has raised in a call of this thread, and forgets it. Call it where such a call has failed.
void rethrow_interrupt();
/// For what may wait in a destructor: Python prints what a handler raises meanwhile.
void in_destructor(const std::function<void()>& wait) noexcept;
/// The same as rethrow_interrupt() for Python: returns it, or None; and whether there is something to return.
pybind11::object take_interrupt();
bool has_interrupt() noexcept;

}  // namespace tutti_torch
